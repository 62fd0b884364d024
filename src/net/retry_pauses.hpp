// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "verbena/base/deadline.hpp"
#include "verbena/base/random.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The pauses between attempts: random exponential backoff. Each pause is at least half of a time
/// that doubles up to a maximum, and at most that time. The pauses are random, so that many
/// processes do not retry at the same time. Equal seeds give equal pauses.
/// Threads: one thread at a time.
class retry_pauses {
 public:
  /// The first and the maximum time.
  struct range {
    std::chrono::nanoseconds first;
    std::chrono::nanoseconds longest;
  };

  explicit retry_pauses(range within, std::uint64_t seed = random_u64()) noexcept
      : state_(seed), most_(within.first), longest_(within.longest) {}

  /// Returns the next pause.
  [[nodiscard]] std::chrono::nanoseconds next() noexcept {
    const auto half = static_cast<std::uint64_t>(most_.count()) / 2;
    most_ = std::min(most_ * 2, longest_);
    return std::chrono::nanoseconds(static_cast<std::int64_t>(half + next_number() % (half + 1)));
  }
  /// Blocks for the next pause. If `until` would pass first, returns false without blocking.
  [[nodiscard]] bool wait(deadline until) noexcept {
    const auto end = deadline::after(next());
    if (end.when() >= until.when()) return false;
    while (!end.expired()) ::poll(nullptr, 0, end.poll_timeout_ms());
    return true;
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
  std::chrono::nanoseconds most_;
  std::chrono::nanoseconds longest_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
