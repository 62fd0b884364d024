// SPDX-License-Identifier: MIT
// A binary heap. If an index gets an earlier time, its old entry stays in the heap; it is
// recognized by its time. If the heap is full of such entries, it is rebuilt.
#include "softdev/core/deadline_queue.hpp"

#include <algorithm>
#include <mutex>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

void deadline_queue::reserve(std::size_t indices) {
  // The heap has room for at least twice as many entries, so that it is rarely rebuilt.
  const std::size_t needed = 2 * indices;
  if (capacity_ >= needed) return;
  std::vector<entry> larger;
  larger.reserve(2 * needed);
  const std::lock_guard lock(lock_);
  capacity_ = larger.capacity();
  larger.assign(heap_.begin(), heap_.end());
  heap_.swap(larger);
}

bool deadline_queue::schedule(std::uint32_t index, time_ns when) noexcept {
  const std::lock_guard lock(lock_);
  if (scheduled_[index] <= when) return false;
  scheduled_[index] = when;
  if (heap_.size() == heap_.capacity()) {
    rebuild();
  } else {
    heap_.push_back({when, index});
    std::ranges::push_heap(heap_, is_later);
  }
  if (when >= earliest_.load(std::memory_order_relaxed)) return false;
  earliest_.store(when, std::memory_order_seq_cst);
  return true;
}

void deadline_queue::cancel(std::uint32_t index) noexcept {
  const std::lock_guard lock(lock_);
  scheduled_[index] = none_;
}

std::size_t deadline_queue::take_due(time_ns now, std::span<std::uint32_t> due) noexcept {
  const std::lock_guard lock(lock_);
  std::size_t count = 0;
  drop_outdated();
  while (count < due.size() && !heap_.empty() && heap_.front().when <= now) {
    due[count++] = heap_.front().index;
    scheduled_[heap_.front().index] = none_;
    drop_outdated();
  }
  earliest_.store(heap_.empty() ? never : heap_.front().when, std::memory_order_seq_cst);
  return count;
}

/// Removes entries from the front until the first one is current.
void deadline_queue::drop_outdated() noexcept {
  while (!heap_.empty() && scheduled_[heap_.front().index] != heap_.front().when) {
    std::ranges::pop_heap(heap_, is_later);
    heap_.pop_back();
  }
}

void deadline_queue::rebuild() noexcept {
  heap_.clear();
  for (std::uint32_t index = 0; index < scheduled_.size(); ++index) {
    if (scheduled_[index] == none_) continue;
    VERBENA_ASSERT(heap_.size() < heap_.capacity(), "more indices are scheduled than reserved");
    heap_.push_back({scheduled_[index], index});
  }
  std::ranges::make_heap(heap_, is_later);
}

}  // namespace verbena::softdev
