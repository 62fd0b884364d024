// SPDX-License-Identifier: MIT
// The CRC-32 of Ethernet, which is also the CRC of the invariant CRC of RoCE v2 packets: polynomial
// 0x04c11db7, bits reflected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace verbena::softdev::wire {

/// The initial state. The CRC is the complement of the final state.
inline constexpr std::uint32_t crc32_start = ~std::uint32_t{0};

/// Returns the state after `bytes`, given the state before them. Uses carry-less multiplication if
/// the processor supports it.
[[nodiscard]] std::uint32_t crc32_update(std::uint32_t state,
                                         std::span<const std::byte> bytes) noexcept;

/// The implementations of crc32_update; for tests and measurements.
enum class crc32_method : std::uint8_t {
  table,  ///< supported by every processor
  pclmul,
  vpclmul,  ///< with AVX-512
};
/// Returns false if this processor does not support `method`.
[[nodiscard]] bool is_available(crc32_method method) noexcept;
/// Computes crc32_update() with the given method. Precondition: is_available(method).
[[nodiscard]] std::uint32_t crc32_update(crc32_method method, std::uint32_t state,
                                         std::span<const std::byte> bytes) noexcept;

/// Returns the state before `count` zero bytes, given the state after them. Time: O(log count).
/// Precondition: count < 2^17.
[[nodiscard]] std::uint32_t crc32_before_zeros(std::uint32_t state, std::size_t count) noexcept;

}  // namespace verbena::softdev::wire
