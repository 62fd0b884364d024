// SPDX-License-Identifier: MIT
// The clock of the device.
#pragma once

#include <cstdint>
#include <ctime>

namespace verbena::softdev {

/// Returns the time of CLOCK_MONOTONIC in nanoseconds. Thread-safe.
[[nodiscard]] inline std::uint64_t monotonic_now() noexcept {
  constexpr std::uint64_t second = 1'000'000'000;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * second + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace verbena::softdev
