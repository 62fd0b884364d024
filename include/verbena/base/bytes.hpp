// SPDX-License-Identifier: MIT
// Views of text as bytes, and loads and stores in network byte order (big-endian).
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "verbena/base/attributes.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Returns a view of the bytes of `text`, without a terminating zero.
[[nodiscard]] inline std::span<const std::byte> bytes_of(
    std::string_view text VERBENA_LIFETIMEBOUND) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Returns `value` with its bytes reversed.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T byte_swap(T value) noexcept {
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

/// Converts between host byte order and network byte order; both directions are one operation.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T network_order(T value) noexcept {
  return std::endian::native == std::endian::big ? value : byte_swap(value);
}

/// Reads big-endian values from the front of a byte sequence, never past its end.
/// Threads: one thread at a time. Borrows the bytes.
class byte_reader {
 public:
  /// Starts at the front of `bytes`, which must outlive the reader.
  explicit byte_reader(std::span<const std::byte> bytes VERBENA_LIFETIMEBOUND) noexcept
      : rest_(bytes) {}

  /// Returns the next value, or nullopt if too few bytes are left.
  template <std::unsigned_integral T>
  [[nodiscard]] std::optional<T> take() noexcept {
    if (rest_.size() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = {rest_.data() + sizeof(T), rest_.size() - sizeof(T)};
    return network_order(value);
  }
  /// Returns the next `count` bytes, or nullopt if fewer are left.
  [[nodiscard]] std::optional<std::span<const std::byte>> take_bytes(std::size_t count) noexcept;
  /// Returns the bytes that are left.
  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return rest_; }

 private:
  std::span<const std::byte> rest_;
};

/// Stores `value` in network order at `out`. Precondition: `out` has sizeof(T) bytes.
template <std::unsigned_integral T>
void store_network_order(std::byte* out, T value) noexcept {
  value = network_order(value);
  std::memcpy(out, &value, sizeof value);
}

}  // namespace verbena::inline VERBENA_ABI
