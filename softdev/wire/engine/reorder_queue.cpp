// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/reorder_queue.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {
namespace {

std::size_t place_of(std::uint32_t psn) noexcept { return psn % reorder_buffer::capacity; }

/// Returns the number of PSNs that a request packet uses. A READ uses those of its response.
std::uint32_t psns_of(const packet& what, std::uint32_t mtu) noexcept {
  constexpr std::uint32_t most = 1U << 22U;  // distances of PSNs have 23 bits
  if (operation_of(what.opcode) != operation::read_request) return 1;
  return std::min(packets_of(what.remote.length, mtu), most);
}

}  // namespace

reorder_buffer* reorder_pool::acquire() noexcept {
  const std::lock_guard lock(mutex_);
  if (free_count_ > 0) return free_[--free_count_].release();
  if (made_ == max_buffers) return nullptr;
  auto* const made = new (std::nothrow) reorder_buffer;
  if (made != nullptr) ++made_;
  return made;
}

void reorder_pool::release(reorder_buffer* which) noexcept {
  const std::lock_guard lock(mutex_);
  free_[free_count_++].reset(which);
}

reorder_queue::added reorder_queue::add(const packet& what, std::uint32_t expected,
                                        std::uint32_t mtu) noexcept {
  const std::int32_t ahead = psn_distance(expected, what.psn);
  if (ahead <= 0 || ahead >= static_cast<std::int32_t>(psn_set::capacity) ||
      what.payload.size() > largest_mtu)
    return added::refused;
  if (buffer_ == nullptr) buffer_ = pool_.acquire();
  if (buffer_ == nullptr) return added::refused;
  if (count_ == 0) end_ = expected;
  const std::size_t at = place_of(what.psn);
  if (buffer_->used[at]) return added::kept;
  buffer_->packets[at].store(what);
  buffer_->used[at] = true;
  ++count_;
  const bool reveals = psn_distance(end_, what.psn) > 0;
  end_ = later_psn(end_, psn_plus(what.psn, psns_of(what, mtu)));
  return reveals ? added::reveals_gap : added::kept;
}

const packet* reorder_queue::find(std::uint32_t psn) const noexcept {
  const std::size_t at = place_of(psn);
  const bool found = count_ > 0 && buffer_->used[at] && buffer_->packets[at].get().psn == psn;
  return found ? &buffer_->packets[at].get() : nullptr;
}

void reorder_queue::remove_before(std::uint32_t psn) noexcept {
  if (buffer_ == nullptr) return;
  for (std::size_t i = 0; i < reorder_buffer::capacity && count_ > 0; ++i) {
    if (!buffer_->used[i] || psn_distance(psn, buffer_->packets[i].get().psn) >= 0) continue;
    buffer_->used[i] = false;
    --count_;
  }
  if (count_ == 0) give_back();
}

void reorder_queue::clear() noexcept {
  if (buffer_ == nullptr) return;
  buffer_->used.fill(false);
  count_ = 0;
  give_back();
}

void reorder_queue::give_back() noexcept { pool_.release(std::exchange(buffer_, nullptr)); }

psn_set reorder_queue::received(std::uint32_t expected) const noexcept {
  psn_set made{.first = expected};
  if (buffer_ == nullptr) return made;
  for (std::size_t i = 0; i < reorder_buffer::capacity; ++i)
    if (buffer_->used[i]) made.insert(buffer_->packets[i].get().psn);
  return made;
}

}  // namespace verbena::softdev::wire
