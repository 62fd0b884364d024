// SPDX-License-Identifier: MIT
// The failure of a request whose RNR retries are exhausted.
#pragma once

#include <cstdint>

#include "softdev/core/attributes.hpp"
#include "softdev/core/failure.hpp"

namespace verbena::softdev {

/// The RNR retry count for an unlimited number of retries.
inline constexpr std::uint8_t unlimited_rnr_retries = 7;

/// Returns why a request ends after `retries` RNR NAKs of the queue pair `from`.
[[nodiscard]] inline failure rnr_retries_exceeded(std::uint32_t from, std::uint8_t retries,
                                                  std::uint8_t timer) noexcept {
  return {.why = reason::receiver_not_ready,
          .key = from,
          .length = rnr_time(timer),
          .detail = retries,
          .extra = std::uint32_t{timer}};
}

}  // namespace verbena::softdev
