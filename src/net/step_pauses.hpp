// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>

#include "verbena/base/deadline.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The pauses between polls of an operation in steps that waits for writes of other ranks, which
/// generate no event. In the first 50 us, there is no pause. After that, a pause is an eighth of
/// the time waited so far, at least 20 us and at most 1 ms. Therefore, a pause delays an operation
/// by at most an eighth of its wait or 20 us, whichever is greater, plus the timer slack of the
/// kernel.
/// Threads: one thread at a time.
class step_pauses {
 public:
  static constexpr std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  static constexpr std::chrono::nanoseconds shortest = std::chrono::microseconds(20);
  static constexpr std::chrono::nanoseconds longest = std::chrono::milliseconds(1);

  using time_point = deadline::clock::time_point;

  explicit step_pauses(time_point now = deadline::clock::now()) noexcept : since_(now) {}

  /// Returns the time of the next poll: at the latest `limit`, or `now` if `limit` has passed.
  [[nodiscard]] deadline next(deadline limit = deadline::never(),
                              time_point now = deadline::clock::now()) const noexcept {
    const std::chrono::nanoseconds waited = now - since_;
    if (waited < spin) return deadline::at(now);
    const auto pause = std::clamp(waited / 8, shortest, longest);
    return deadline::at(std::max(now, std::min(now + pause, limit.when())));
  }
  /// Returns true if the first 50 us have passed, so that the thread may sleep.
  [[nodiscard]] bool may_sleep() const noexcept { return deadline::clock::now() - since_ >= spin; }
  /// Starts a new wait, because the operation has made progress.
  void restart(time_point now = deadline::clock::now()) noexcept { since_ = now; }

 private:
  time_point since_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
