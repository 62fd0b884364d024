// SPDX-License-Identifier: MIT
// The point in time at which a call stops waiting.
#pragma once

#include <chrono>
#include <cstdint>
#include <ratio>

#include "verbena/base/config.hpp"
#include "verbena/base/detail/saturating_cast.hpp"

namespace verbena::inline VERBENA_ABI {

/// Holds a point on the steady clock, or "never". Threads: immutable value.
class deadline {
 public:
  /// The clock of deadlines.
  using clock = std::chrono::steady_clock;

  /// Returns the deadline that never passes.
  [[nodiscard]] static deadline never() noexcept { return deadline(clock::time_point::max()); }
  /// Returns the deadline at `when`.
  [[nodiscard]] static deadline at(clock::time_point when) noexcept { return deadline(when); }
  /// Returns the deadline `duration` from now. A negative duration means now, and a duration beyond
  /// the range of the clock means never.
  template <class Rep = std::int64_t, class Period = std::nano>
  [[nodiscard]] static deadline after(std::chrono::duration<Rep, Period> duration) noexcept {
    return from_now(detail::saturating_cast<std::chrono::nanoseconds>(duration));
  }

  /// Returns whether the deadline never passes.
  [[nodiscard]] bool is_never() const noexcept { return when_ == clock::time_point::max(); }
  /// Returns whether the deadline has passed. Reads the clock.
  [[nodiscard]] bool expired() const noexcept;
  /// Returns the point in time; time_point::max() for never.
  [[nodiscard]] clock::time_point when() const noexcept { return when_; }
  /// Returns the time until the deadline: 0 if it has passed, duration::max() for never. Reads the
  /// clock.
  [[nodiscard]] clock::duration time_left() const noexcept;
  /// Returns the timeout for poll(2): the milliseconds left, rounded up; 0 if expired, -1 for
  /// never.
  ///
  /// The result is at most one day. If poll(2) times out before the deadline, the caller polls
  /// again.
  [[nodiscard]] int poll_timeout_ms() const noexcept;

 private:
  explicit deadline(clock::time_point when) noexcept : when_(when) {}
  [[nodiscard]] static deadline from_now(std::chrono::nanoseconds duration) noexcept;

  clock::time_point when_;
};

}  // namespace verbena::inline VERBENA_ABI
