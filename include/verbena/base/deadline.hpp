// SPDX-License-Identifier: MIT
// A point in time until which a call may block.
#pragma once

#include <chrono>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// A point on the steady clock, or never. Threads: immutable value.
class deadline {
 public:
  /// The clock that deadlines are points of.
  using clock = std::chrono::steady_clock;

  /// A call with it blocks for as long as it takes.
  [[nodiscard]] static deadline never() noexcept { return deadline(clock::time_point::max()); }
  /// At `when`.
  [[nodiscard]] static deadline at(clock::time_point when) noexcept { return deadline(when); }
  /// `duration` from now; a duration beyond the clock's range means never, a negative one now.
  [[nodiscard]] static deadline after(std::chrono::nanoseconds duration) noexcept;

  /// Whether it never passes.
  [[nodiscard]] bool is_never() const noexcept { return when_ == clock::time_point::max(); }
  /// Whether it has passed. Reads the clock.
  [[nodiscard]] bool expired() const noexcept { return !is_never() && clock::now() >= when_; }
  /// The point in time; time_point::max() for never.
  [[nodiscard]] clock::time_point when() const noexcept { return when_; }
  /// What poll(2) takes: milliseconds left, rounded up so that waiting never ends early; 0 when
  /// expired, -1 for never. At most one day: callers wait again when it returns early.
  [[nodiscard]] int poll_timeout_ms() const noexcept;

 private:
  explicit deadline(clock::time_point when) noexcept : when_(when) {}
  clock::time_point when_;
};

}  // namespace verbena::inline VERBENA_ABI
