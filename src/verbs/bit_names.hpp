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

/// `WITH_IMM | 0x80`: the names of the bits in `mask`, the rest in hexadecimal; `none` for 0.
[[nodiscard]] inline std::string names_of_bits(std::uint64_t mask,
                                               std::span<const named_bit> known) {
  std::string text;
  const auto add = [&text](std::string_view name) {
    if (!text.empty()) text += " | ";
    text += name;
  };
  for (const auto& [bit, name] : known) {
    if ((mask & bit) == 0) continue;
    add(name);
    mask &= ~bit;
  }
  if (mask != 0) add(hexadecimal(mask));
  return text.empty() ? "none" : text;
}

}  // namespace verbena::inline VERBENA_ABI::detail
