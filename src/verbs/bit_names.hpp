// SPDX-License-Identifier: MIT
// Masks in words.
#pragma once

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

/// `WITH_IMM | 0x80`: the names of the bits in `mask`, the rest in hexadecimal; `none` for 0.
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
  if (mask != 0) add(hexadecimal(mask));
  return text.empty() ? "none" : text;
}

}  // namespace verbena::inline VERBENA_ABI::detail
