// SPDX-License-Identifier: MIT
// Bytes: views of text and values, and big-endian (network order) loads and stores.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// The bytes of `text`, without a terminating zero. Borrows.
[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// `value` with its bytes in the opposite order.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T byte_swap(T value) noexcept {
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

/// Host order to network order and back; the two are the same operation.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T network_order(T value) noexcept {
  return std::endian::native == std::endian::big ? value : byte_swap(value);
}

/// Takes big-endian values from the front of a byte sequence; never reads past its end.
/// Threads: one thread at a time. Borrows the bytes.
class byte_reader {
 public:
  /// Of `bytes`, which must outlive it.
  explicit byte_reader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  /// The next value, or nothing when too few bytes are left.
  template <std::unsigned_integral T>
  [[nodiscard]] std::optional<T> take() noexcept {
    if (rest_.size() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof(T));
    return network_order(value);
  }
  /// The next `count` bytes, or nothing when fewer are left.
  [[nodiscard]] std::optional<std::span<const std::byte>> take_bytes(std::size_t count) noexcept {
    if (rest_.size() < count) return std::nullopt;
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  /// What was not taken yet.
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
