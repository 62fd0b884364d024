// SPDX-License-Identifier: MIT
// Hashes for the specialisations of std::hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Hashes the wire format of a value.
[[nodiscard]] inline std::size_t hash_of(std::span<const std::byte> bytes) noexcept {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Hashes the members of a value, in their order.
template <class... T>
[[nodiscard]] std::size_t hash_members(const T&... members) noexcept {
  std::uint64_t mixed = 0;
  // std::hash of an integer may be the integer: the product spreads its low bits.
  ((mixed = (mixed ^ std::hash<T>{}(members)) * 0x9e37'79b9'7f4a'7c15, mixed ^= mixed >> 32), ...);
  return static_cast<std::size_t>(mixed);
}

}  // namespace verbena::inline VERBENA_ABI::detail
