// SPDX-License-Identifier: MIT
#include "softdev/peers/wake_channels.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::softdev {

namespace {
constexpr std::uint16_t generation_of(wake_channel_id id) noexcept {
  return static_cast<std::uint16_t>(id >> 16);
}
}  // namespace

result<wake_channels::created> wake_channels::create() {
  VERBENA_TRY(auto receiver, wake_receiver::create());
  const std::lock_guard lock(mutex_);
  std::size_t index = 0;
  while (index < entries_.size() && entries_[index].receiver) ++index;
  if (index == capacity) {
    return error::from_errno(EMFILE, "ibv_create_comp_channel", "completion channel of soft0",
                             "a process has at most 4096 completion channels that peers signal");
  }
  if (index == entries_.size()) entries_.emplace_back();
  entry& place = entries_[index];
  if (++place.generation == 0) place.generation = 1;
  place.receiver = std::move(receiver);
  const auto id = static_cast<wake_channel_id>(index | (std::uint32_t{place.generation} << 16));
  return created{id, place.receiver.get()};
}

wake_receiver* wake_channels::find(wake_channel_id id) noexcept {
  const std::uint32_t index = index_of(id);
  if (index >= entries_.size() || entries_[index].generation != generation_of(id)) return nullptr;
  return entries_[index].receiver.get();
}

bool wake_channels::destroy(wake_channel_id id) {
  const std::lock_guard lock(mutex_);
  if (find(id) == nullptr) return false;
  entries_[index_of(id)].receiver.reset();
  return true;
}

unique_fd wake_channels::share(wake_channel_id id, const void* with) {
  const std::lock_guard lock(mutex_);
  wake_receiver* wanted = find(id);
  if (wanted == nullptr) return {};
  const auto others = std::ranges::count_if(entries_, [&](const entry& each) {
    return each.receiver && each.receiver.get() != wanted && each.receiver->serves(with);
  });
  if (others >= static_cast<std::ptrdiff_t>(most_per_peer)) return {};
  auto end = wanted->admit(with);
  return end ? *std::move(end) : unique_fd();
}

void wake_channels::close_all() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (const entry& each : entries_)
    if (each.receiver) each.receiver->close_senders();
}

void wake_channels::dismiss(const void* who) noexcept {
  const std::lock_guard lock(mutex_);
  for (const entry& each : entries_) {
    if (each.receiver) each.receiver->dismiss(who);
  }
}

}  // namespace verbena::softdev
