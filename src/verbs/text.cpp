// SPDX-License-Identifier: MIT
#include "src/verbs/text.hpp"

#include <array>

namespace verbena::inline VERBENA_ABI::detail {

std::string unknown_value(std::int64_t value) { return "unknown (" + std::to_string(value) + ")"; }

std::string byte_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

void add_line(std::string& text, std::string_view name, std::string_view value) {
  if (!text.empty()) text += '\n';
  text.append(name).append(": ").append(value);
}

std::string counted(std::uint64_t count, std::string_view what) {
  std::string text = std::to_string(count) + " ";
  text += what;
  return count == 1 ? text : text + "s";
}

}  // namespace verbena::inline VERBENA_ABI::detail
