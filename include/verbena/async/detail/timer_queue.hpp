// SPDX-License-Identifier: MIT
// A pairing heap of timers, which are parts of operations.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

using time_point = std::chrono::steady_clock::time_point;

/// Selects the constructor of a timer that sets no member.
struct uninitialized_timer {};

/// Calls a function when `when` has passed. Must not be moved while it is set.
struct timer {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): valid while it is set
  timer() noexcept : is_set(false) {}
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the owner sets is_set before use
  explicit timer(uninitialized_timer /*tag*/) noexcept {}
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  ~timer() = default;

  time_point when;
  void (*expire)(timer&) noexcept;

  // Links of the heap: the first child; the next sibling; the previous sibling or the parent.
  timer* child;
  timer* next;
  timer* previous;
  bool is_set;
};

/// Threads: one thread at a time. Never allocates. Setting is O(1), the rest O(log n) amortized.
class timer_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// Returns the time of the earliest timer, or nullopt if there are no timers.
  [[nodiscard]] std::optional<time_point> next() const noexcept {
    if (empty()) return std::nullopt;
    return first_->when;
  }
  /// Sets the timer to `when`. Precondition: the timer is not set.
  void set(timer& which, time_point when) noexcept;
  /// Resets the timer. Has no effect if the timer is not set.
  void reset(timer& which) noexcept;
  /// Removes the timers that have expired at `now` and calls their functions, which may set and
  /// reset timers. Returns the number of calls.
  std::size_t expire(time_point now) noexcept;

 private:
  timer* first_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
