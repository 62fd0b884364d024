// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The pauses between attempts: between half and all of a time that doubles from 1 ms to 250 ms.
/// Equal seeds have equal pauses. Threads: one thread at a time.
class retry_pauses {
 public:
  static constexpr std::chrono::nanoseconds first = std::chrono::milliseconds(1);
  static constexpr std::chrono::nanoseconds longest = std::chrono::milliseconds(250);

  explicit retry_pauses(std::uint64_t seed) noexcept : state_(seed) {}

  [[nodiscard]] std::chrono::nanoseconds next() noexcept {
    const auto half = static_cast<std::uint64_t>(most_.count()) / 2;
    most_ = std::min(most_ * 2, longest);
    return std::chrono::nanoseconds(static_cast<std::int64_t>(half + next_number() % (half + 1)));
  }

 private:
  // SplitMix64 (Steele, Lea and Flood, 2014).
  [[nodiscard]] std::uint64_t next_number() noexcept {
    std::uint64_t mixed = state_ += 0x9e37'79b9'7f4a'7c15U;
    mixed = (mixed ^ mixed >> 30U) * 0xbf58'476d'1ce4'e5b9U;
    mixed = (mixed ^ mixed >> 27U) * 0x94d0'49bb'1331'11ebU;
    return mixed ^ mixed >> 31U;
  }

  std::uint64_t state_;
  std::chrono::nanoseconds most_ = first;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
