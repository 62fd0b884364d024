// SPDX-License-Identifier: MIT
// Path MTU values.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// A path MTU: the largest payload of a packet. Values as in `ibv_mtu`; unknown values are
/// preserved.
enum class mtu : std::uint8_t {
  bytes_256 = 1,   ///< 256 bytes
  bytes_512 = 2,   ///< 512 bytes
  bytes_1024 = 3,  ///< 1024 bytes
  bytes_2048 = 4,  ///< 2048 bytes
  bytes_4096 = 5,  ///< 4096 bytes
};

/// Returns the number of bytes; 0 for an unknown value.
[[nodiscard]] constexpr std::uint32_t byte_count(mtu of) noexcept {
  const auto encoded = static_cast<std::uint8_t>(of);
  return encoded >= 1 && encoded <= 5 ? 128U << encoded : 0;
}

/// Returns `4096` or `unknown (9)`.
[[nodiscard]] std::string to_string(mtu of);

}  // namespace verbena::inline VERBENA_ABI
