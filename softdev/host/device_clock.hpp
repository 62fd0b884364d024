// SPDX-License-Identifier: MIT
// The clock of the device, for the timestamps of completions. Like the clock of an adapter, it
// counts ticks, begins at any value and wraps around. Differences under the mask are correct across
// the wrap.
#pragma once

#include <cstdint>

namespace verbena::softdev {

struct device_clock {
  static constexpr std::uint64_t mask = (std::uint64_t{1} << 48U) - 1;
  static constexpr std::uint64_t khz = 1'000'000;  ///< a tick is a nanosecond

  /// Returns the time of the clock. No system call; thread-safe.
  [[nodiscard]] static std::uint64_t now() noexcept;
  /// Sets the clock of this process to `ticks`. Thread-safe.
  static void set(std::uint64_t ticks) noexcept;
};

}  // namespace verbena::softdev
