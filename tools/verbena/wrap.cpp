// SPDX-License-Identifier: MIT
#include "tools/verbena/wrap.hpp"

#include <algorithm>

namespace verbena::tool {
namespace {

constexpr std::size_t text_columns = 80;

}  // namespace

void append_wrapped(std::string& out, std::string_view text, std::size_t indent) {
  std::size_t column = indent;
  bool begins = true;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const auto word = text.substr(0, end);
    if (!begins && column + 1 + word.size() > text_columns) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
      begins = true;
    }
    if (!begins) {
      out += ' ';
      ++column;
    }
    // A word that is longer than a line is split.
    for (const char character : word) {
      if (column == text_columns) {
        out += '\n' + std::string(indent, ' ');
        column = indent;
      }
      out += character;
      ++column;
    }
    begins = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += '\n';
}

}  // namespace verbena::tool
