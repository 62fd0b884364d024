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

reorder_buffer* reorder_pool::acquire(buffer_use use) noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t& in_use = in_use_[static_cast<std::size_t>(use)];
  if (in_use == max_buffers) return nullptr;
  reorder_buffer* const given =
      free_count_ > 0 ? free_[--free_count_].release() : new (std::nothrow) reorder_buffer;
  if (given != nullptr) ++in_use;
  return given;
}

void reorder_pool::release(reorder_buffer* which, buffer_use use) noexcept {
  const std::lock_guard lock(mutex_);
  --in_use_[static_cast<std::size_t>(use)];
  free_[free_count_++].reset(which);
}

/// Returns the buffer for the PSN, and acquires it if necessary; nullptr if the pool is exhausted.
reorder_buffer* reorder_queue::make_buffer(std::uint32_t psn) noexcept {
  reorder_buffer*& which = buffers_[buffer_of(psn)];
  if (which != nullptr) return which;
  which = pool_.acquire(buffer_count_ == 0 ? buffer_use::first : buffer_use::further);
  if (which != nullptr) ++buffer_count_;
  return which;
}

reorder_queue::added reorder_queue::add(const packet& what, const range& within,
                                        std::uint32_t mtu) noexcept {
  if (count_ == 0) reach_ = within.reach;
  const std::int32_t ahead = psn_distance(within.expected, what.psn);
  if (ahead <= 0 || ahead >= static_cast<std::int32_t>(reach_) || what.payload.size() > largest_mtu)
    return added::refused;
  reorder_buffer* const buffer = make_buffer(what.psn);
  if (buffer == nullptr) return added::refused;
  if (count_ == 0) end_ = within.expected;
  const std::size_t at = place_of(what.psn);
  if (buffer->used[at]) return added::kept;
  buffer->packets[at].store(what);
  buffer->used[at] = true;
  ++buffer->count;
  ++count_;
  const bool reveals = psn_distance(end_, what.psn) > 0;
  end_ = later_psn(end_, psn_plus(what.psn, psns_of(what, mtu)));
  return reveals ? added::reveals_gap : added::kept;
}

const packet* reorder_queue::find(std::uint32_t psn) const noexcept {
  const reorder_buffer* const buffer = buffers_[buffer_of(psn)];
  const std::size_t at = place_of(psn);
  const bool found = buffer != nullptr && buffer->used[at] && buffer->packets[at].get().psn == psn;
  return found ? &buffer->packets[at].get() : nullptr;
}

void reorder_queue::remove_before(std::uint32_t psn) noexcept {
  for (std::size_t index = 0; index < most_buffers; ++index) {
    reorder_buffer* const buffer = buffers_[index];
    if (buffer == nullptr) continue;
    for (std::size_t i = 0; i < reorder_buffer::capacity && buffer->count > 0; ++i) {
      if (!buffer->used[i] || psn_distance(psn, buffer->packets[i].get().psn) >= 0) continue;
      buffer->used[i] = false;
      --buffer->count;
      --count_;
    }
    if (buffer->count == 0) give_back(index);
  }
}

void reorder_queue::clear() noexcept {
  if (buffer_count_ == 0) return;
  for (std::size_t index = 0; index < most_buffers; ++index) {
    if (buffers_[index] == nullptr) continue;
    buffers_[index]->used.fill(false);
    buffers_[index]->count = 0;
    give_back(index);
  }
  count_ = 0;
}

void reorder_queue::give_back(std::size_t index) noexcept {
  const auto use = --buffer_count_ == 0 ? buffer_use::first : buffer_use::further;
  pool_.release(std::exchange(buffers_[index], nullptr), use);
}

psn_set reorder_queue::received(std::uint32_t expected) const noexcept {
  psn_set made{.first = expected};
  for (const reorder_buffer* const buffer : buffers_) {
    if (buffer == nullptr) continue;
    for (std::size_t i = 0; i < reorder_buffer::capacity; ++i)
      if (buffer->used[i]) made.insert(buffer->packets[i].get().psn);
  }
  return made;
}

}  // namespace verbena::softdev::wire
