// SPDX-License-Identifier: MIT
#include "src/verbs/text.hpp"

#include <fmt/format.h>

#include <array>

namespace verbena::inline VERBENA_ABI::detail {

std::string unknown_value(std::int64_t value) { return fmt::format("unknown ({})", value); }

std::string byte_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, units[unit]);
}

void add_line(std::string& text, std::string_view name, std::string_view value) {
  if (!text.empty()) text += '\n';
  text += fmt::format("{}: {}", name, value);
}

std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace verbena::inline VERBENA_ABI::detail
