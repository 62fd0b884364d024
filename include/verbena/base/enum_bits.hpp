// SPDX-License-Identifier: MIT
// Enumerations of the C API whose values may be newer than the C headers of the build.
#pragma once

#include <cstring>
#include <type_traits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Converts `native` to `To` and keeps unknown values.
///
/// Loading `native` as an enumeration is undefined if the C header does not define its value, so
/// the bytes are copied. Costs one load.
template <class To, class From>
  requires(std::is_enum_v<To> && std::is_enum_v<From>)
[[nodiscard]] To enum_from_bits(const From& native) noexcept {
  std::underlying_type_t<From> bits;
  std::memcpy(&bits, &native, sizeof bits);
  return static_cast<To>(bits);
}

}  // namespace verbena::inline VERBENA_ABI
