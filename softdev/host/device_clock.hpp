// SPDX-License-Identifier: MIT
// The clock of the device, which stamps completions. As those of adapters it counts ticks, begins
// anywhere and wraps around; differences under the mask are right across the wrap.
#pragma once

#include <cstdint>

namespace verbena::softdev {

struct device_clock {
  static constexpr std::uint64_t mask = (std::uint64_t{1} << 48U) - 1;
  static constexpr std::uint64_t khz = 1'000'000;  ///< a tick is a nanosecond

  /// What the clock shows. No system call; thread-safe.
  [[nodiscard]] static std::uint64_t now() noexcept;
  /// Makes the clock show `ticks` now, in this process. Thread-safe.
  static void set(std::uint64_t ticks) noexcept;
};

}  // namespace verbena::softdev
