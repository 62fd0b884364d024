// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "tools/verbena/doctor/report.hpp"

namespace verbena::tool {
namespace {

constexpr std::size_t text_columns = 80;
constexpr std::size_t indent = 9;  // after the longest severity

// Appends `text` in lines of at most 80 columns, indented by `indent` blanks. The first line
// continues the current line.
void wrap(std::string& out, std::string_view text) {
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

// Commands are not wrapped, so that they can be copied; they may have several lines.
void add_command(std::string& out, std::string_view command) {
  const std::string margin(indent, ' ');
  out += margin + "$ ";
  for (const char character : command) {
    out += character;
    if (character == '\n') out += margin + "  ";
  }
  out += '\n';
}

void add(std::string& out, const diagnose::finding& of) {
  const std::string_view level = to_string(of.level);
  out += level;
  out += std::string(indent - level.size(), ' ');
  wrap(out, of.topic + (of.subject.empty() ? "" : ", " + of.subject) + ": " + of.meaning);
  out += std::string(indent, ' ');
  wrap(out, "checked: " + of.looked_at);
  for (const auto& command : of.commands) add_command(out, command);
}

}  // namespace

std::string to_text(const doctor_report& of) {
  std::string out;
  for (const auto& each : of.findings) add(out, each);
  out += '\n' + of.verdict + '\n';
  return out;
}

}  // namespace verbena::tool
