// SPDX-License-Identifier: MIT
#include "softdev/peers/wake_channels.hpp"

#include <fcntl.h>

#include <cerrno>

#include "softdev/ipc/eventfd.hpp"
#include "softdev/shm/sealed_memory.hpp"

namespace verbena::softdev {

namespace {
constexpr std::uint32_t index_of(wake_channel_id id) noexcept { return id & 0xffffU; }
constexpr std::uint16_t generation_of(wake_channel_id id) noexcept {
  return static_cast<std::uint16_t>(id >> 16);
}
}  // namespace

result<wake_channels::created> wake_channels::create() {
  VERBENA_TRY(unique_fd fd, create_eventfd());
  const std::lock_guard lock(mutex_);
  std::size_t index = 0;
  while (index < entries_.size() && entries_[index].fd) ++index;
  if (index == capacity) return error::from_errno(EMFILE, "eventfd", "completion channel");
  if (index == entries_.size()) entries_.emplace_back();
  entry& place = entries_[index];
  if (++place.generation == 0) place.generation = 1;
  place.fd = std::move(fd);
  const auto id = static_cast<wake_channel_id>(index | (std::uint32_t{place.generation} << 16));
  return created{id, place.fd.get()};
}

bool wake_channels::destroy(wake_channel_id id) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t index = index_of(id);
  if (index >= entries_.size() || entries_[index].generation != generation_of(id)) return false;
  if (!entries_[index].fd) return false;
  entries_[index].fd.reset();
  return true;
}

unique_fd wake_channels::share(wake_channel_id id) const {
  const std::lock_guard lock(mutex_);
  const std::uint32_t index = index_of(id);
  if (index >= entries_.size() || entries_[index].generation != generation_of(id)) return {};
  if (!entries_[index].fd) return {};
  return unique_fd(::fcntl(entries_[index].fd.get(), F_DUPFD_CLOEXEC, 0));
}

void wake_channels::close_all() noexcept {
  for (entry& each : entries_) each.fd.reset();
}

}  // namespace verbena::softdev
