// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/document.hpp"

namespace verbena::tool {

std::string_view suffix(unit of) {
  switch (of) {
    case unit::none:
      return "";
    case unit::bytes:
      return "bytes";
    case unit::hertz:
      return "hz";
    case unit::bits_per_second:
      return "bits_per_second";
    case unit::seconds:
      return "seconds";
    case unit::lanes:
      return "lanes";
  }
  return "";
}

std::vector<std::string> split_names(const std::string& text) {
  constexpr std::string_view separator = " | ";
  std::vector<std::string> names;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = rest.find(separator);
    const auto name = rest.substr(0, end);
    if (name != "none" && !name.starts_with("0x")) names.emplace_back(name);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + separator.size());
  }
  return names;
}

}  // namespace verbena::tool
