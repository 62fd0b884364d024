// SPDX-License-Identifier: MIT
// Arithmetic of packet sequence numbers (PSNs), which have 24 bits.
#pragma once

#include <cstdint>

#include "softdev/core/types.hpp"

namespace verbena::softdev::wire {

[[nodiscard]] constexpr std::uint32_t psn_plus(std::uint32_t psn, std::uint32_t count) noexcept {
  return (psn + count) & psn_mask;
}
/// Returns how far `psn` is ahead of `from`: -2^23 to 2^23 - 1.
[[nodiscard]] constexpr std::int32_t psn_distance(std::uint32_t from, std::uint32_t psn) noexcept {
  constexpr unsigned unused_bits = 8;
  return static_cast<std::int32_t>((psn - from) << unused_bits) >> unused_bits;
}

[[nodiscard]] constexpr std::uint32_t later_psn(std::uint32_t a, std::uint32_t b) noexcept {
  return psn_distance(a, b) > 0 ? b : a;
}

}  // namespace verbena::softdev::wire
