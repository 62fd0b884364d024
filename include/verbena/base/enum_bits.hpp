// SPDX-License-Identifier: MIT
// Enumerations of the C API whose values may be newer than the headers this was compiled with.
#pragma once

#include <cstring>
#include <type_traits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// The value of `native` as `To`, whatever it is. Loading it as its own type would be undefined for
/// values that the C header does not know. Costs a load.
template <class To, class From>
  requires(std::is_enum_v<To> && std::is_enum_v<From>)
[[nodiscard]] To enum_from_bits(const From& native) noexcept {
  std::underlying_type_t<From> bits;
  std::memcpy(&bits, &native, sizeof bits);
  return static_cast<To>(bits);
}

}  // namespace verbena::inline VERBENA_ABI
