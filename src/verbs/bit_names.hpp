// SPDX-License-Identifier: MIT
// Names of the bits of a mask.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// One bit of a mask and its name.
struct named_bit {
  std::uint64_t bit;
  std::string_view name;
};

template <class Enum>
constexpr std::uint64_t bit(Enum flag) {
  return static_cast<std::uint64_t>(flag);
}

/// Returns the names of the bits in `mask` and the unknown bits in hexadecimal, as
/// `WITH_IMM | 0x80`. Returns `none` for 0.
[[nodiscard]] inline std::string names_of_bits(std::uint64_t mask,
                                               std::span<const named_bit> known) {
  std::string text;
  const auto add = [&text](std::string_view name) {
    if (!text.empty()) text += " | ";
    text += name;
  };
  for (const auto& each : known) {
    if ((mask & each.bit) == 0) continue;
    add(each.name);
    mask &= ~each.bit;
  }
  if (mask != 0) add(fmt::format("{:#x}", mask));
  return text.empty() ? "none" : text;
}

}  // namespace verbena::inline VERBENA_ABI::detail
