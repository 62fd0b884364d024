// SPDX-License-Identifier: MIT
#include "src/base/text.hpp"

#include <array>
#include <charconv>

namespace verbena::inline VERBENA_ABI::detail {

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 18> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

}  // namespace verbena::inline VERBENA_ABI::detail
