// SPDX-License-Identifier: MIT
// The largest packet on a path, as ports and queue pairs encode it.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Payload bytes of the largest packet. The values are those of `ibv_mtu`; unknown ones are kept.
enum class mtu : std::uint8_t {
  bytes_256 = 1,   ///< 256 bytes
  bytes_512 = 2,   ///< 512 bytes
  bytes_1024 = 3,  ///< 1024 bytes
  bytes_2048 = 4,  ///< 2048 bytes
  bytes_4096 = 5,  ///< 4096 bytes
};

/// Payload bytes of a packet; 0 for a value that is none of the enumerators.
[[nodiscard]] constexpr std::uint32_t byte_count(mtu of) noexcept {
  const auto encoded = static_cast<std::uint8_t>(of);
  return encoded >= 1 && encoded <= 5 ? 128U << encoded : 0;
}

/// `4096`; `unknown (9)`.
[[nodiscard]] std::string to_string(mtu of);

}  // namespace verbena::inline VERBENA_ABI
