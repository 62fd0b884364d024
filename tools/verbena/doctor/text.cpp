// SPDX-License-Identifier: MIT
#include <cstddef>
#include <string>
#include <string_view>

#include "tools/verbena/doctor/report.hpp"
#include "tools/verbena/wrap.hpp"

namespace verbena::tool {
namespace {

constexpr std::size_t indent = 9;  // after the longest severity

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
  append_wrapped(out, of.topic + (of.subject.empty() ? "" : ", " + of.subject) + ": " + of.meaning,
                 indent);
  out += std::string(indent, ' ');
  append_wrapped(out, "checked: " + of.looked_at, indent);
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
