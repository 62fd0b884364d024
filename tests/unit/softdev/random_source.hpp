// SPDX-License-Identifier: MIT
// Random numbers that depend only on a seed.
#pragma once

#include <cstdint>

namespace verbena::softdev {

/// SplitMix64. Threads: one thread at a time.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

  [[nodiscard]] std::uint64_t next() noexcept {
    std::uint64_t x = state_ += 0x9e37'79b9'7f4a'7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d0'49bb'1331'11ebU;
    return x ^ (x >> 31U);
  }
  /// Returns a number from 0 to `limit` - 1.
  [[nodiscard]] std::uint32_t below(std::uint32_t limit) noexcept {
    return static_cast<std::uint32_t>(next() % limit);
  }
  /// Returns true in `per_mille` of 1000 cases.
  [[nodiscard]] bool chance(std::uint32_t per_mille) noexcept { return below(1000) < per_mille; }

 private:
  std::uint64_t state_;
};

}  // namespace verbena::softdev
