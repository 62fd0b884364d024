// SPDX-License-Identifier: MIT
#include "softdev/core/completion_queue.hpp"

#include <mutex>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

completion_queue::completion_queue(const completion_queue_options& options)
    : capacity_(options.capacity),
      owner_(options.owner),
      clock_(options.clock),
      observer_(options.observer) {
  VERBENA_ASSERT(capacity_ >= 1 && capacity_ <= limits::max_completions,
                 "the capacity of a completion queue is within the device's limits");
  slots_ = allocate(capacity_);
}

std::size_t completion_queue::poll(std::span<completion> out) noexcept {
  auto to = out.begin();
  return poll_each(out.size(), [&](const completion& one) { copy_members(*to++, one); });
}

bool completion_queue::resize(std::uint32_t capacity) {
  VERBENA_ASSERT(capacity >= 1 && capacity <= limits::max_completions,
                 "the capacity of a completion queue is within the device's limits");
  auto slots = allocate(capacity);
  const std::lock_guard lock(lock_);
  const std::uint32_t held = count_.load(std::memory_order_relaxed);
  if (held > capacity) return false;
  for (std::uint32_t i = 0; i < held; ++i) slots[i] = at(i);
  slots_.swap(slots);
  capacity_ = capacity;
  if (room_ != 0) room_ = capacity;
  head_ = 0;
  return true;
}

void completion_queue::overrun_next() noexcept {
  const std::lock_guard lock(lock_);
  room_ = 0;
}

bool completion_queue::arm(notify kind) noexcept {
  const std::lock_guard lock(lock_);
  const notify before = armed_.load(std::memory_order_relaxed);
  if (kind <= before) return false;
  armed_.store(kind, std::memory_order_release);
  if (before != notify::none) return false;
  if (observer_ != nullptr) observer_->count_armed(*this, true);
  return true;
}

bool completion_queue::lose_one() noexcept {
  room_ = capacity_;
  const bool first_loss = !overrun_.exchange(true, std::memory_order_acq_rel);
  lock_.unlock();
  if (first_loss && observer_ != nullptr) observer_->overrun(*this);
  return false;
}

bool completion_queue::raise(notify armed, bool solicited, std::uint32_t added) noexcept {
  if (armed != notify::any && !solicited) {
    lock_.unlock();
    return true;
  }
  if (waits_for_more(added)) {
    const time_ns when = wait_ends_;
    lock_.unlock();
    if (observer_ != nullptr) observer_->delayed(*this, when);
    return true;
  }
  disarm_and_notify();
  return true;
}

/// Counts completions for the next event. Returns whether the event waits for more completions.
bool completion_queue::waits_for_more(std::uint32_t added) noexcept {
  if (moderation_.completions <= 1) return false;
  if (waiting_ == 0 && moderation_.period != 0)
    wait_ends_ = moderation_clock_() + moderation_.period;
  waiting_ += added;
  return waiting_ < moderation_.completions;
}

/// Raises the event. The lock is held; releases it.
void completion_queue::disarm_and_notify() noexcept {
  waiting_ = 0;
  wait_ends_ = never;
  // end_delay() may be called for a queue that is not armed.
  const bool was_armed = armed_.load(std::memory_order_relaxed) != notify::none;
  armed_.store(notify::none, std::memory_order_release);
  if (was_armed && observer_ != nullptr) observer_->count_armed(*this, false);
  lock_.unlock();
  if (observer_ != nullptr) observer_->event(*this);
}

void completion_queue::moderate(const event_moderation& how, time_ns (*clock)()) noexcept {
  {
    const std::lock_guard lock(lock_);
    moderation_ = how;
    moderation_clock_ = clock;
  }
  end_delay();
}

void completion_queue::end_delay() noexcept {
  lock_.lock();
  if (waiting_ == 0) return lock_.unlock();
  disarm_and_notify();
}

void completion_queue::forget(const std::atomic<std::uint64_t>* released) noexcept {
  const std::lock_guard lock(lock_);
  const std::uint32_t held = count_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < held; ++i) {
    slot& one = at(i);
    if (one.from.released == released) one.from.released = nullptr;
  }
}

void completion_queue::remove(const std::atomic<std::uint64_t>* released) noexcept {
  const std::lock_guard lock(lock_);
  const std::uint32_t held = count_.load(std::memory_order_relaxed);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < held; ++i)
    if (at(i).from.released != released) at(kept++) = at(i);
  count_.store(kept, std::memory_order_release);
}

}  // namespace verbena::softdev
