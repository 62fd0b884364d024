// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>

#include "verbena/base/deadline.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The pauses of an operation in steps that waits for writes of other ranks, which cause no event:
/// none at first, then an eighth of the time that it has waited. A wait is thus at most an eighth
/// longer than necessary. Threads: one thread at a time.
class step_pauses {
 public:
  static constexpr std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  static constexpr std::chrono::nanoseconds shortest = std::chrono::microseconds(20);
  static constexpr std::chrono::nanoseconds longest = std::chrono::milliseconds(1);

  using time_point = deadline::clock::time_point;

  explicit step_pauses(time_point now = deadline::clock::now()) noexcept : since_(now) {}

  /// Returns when to look again.
  [[nodiscard]] deadline next(time_point now = deadline::clock::now()) const noexcept {
    const std::chrono::nanoseconds waited = now - since_;
    if (waited < spin) return deadline::at(now);
    return deadline::at(now + std::clamp(waited / 8, shortest, longest));
  }
  /// Returns whether the pauses have begun, so that the thread may sleep.
  [[nodiscard]] bool may_sleep() const noexcept { return deadline::clock::now() - since_ >= spin; }
  /// Begins a new wait, because the operation has made progress.
  void restart(time_point now = deadline::clock::now()) noexcept { since_ = now; }

 private:
  time_point since_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
