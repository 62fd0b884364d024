// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace verbena::tool {
namespace {

constexpr std::size_t columns = 80;
constexpr std::size_t indentation = 2;
constexpr std::size_t value_column = 36;

// Returns up to four significant digits and a unit with an SI prefix: `1.5 GHz`.
std::string scaled(double amount, std::string_view unit_text) {
  struct prefix {
    double factor;
    const char* text;
  };
  static constexpr prefix prefixes[] = {{1e12, "T"}, {1e9, "G"},  {1e6, "M"},  {1e3, "k"},
                                        {1, ""},     {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}};
  if (amount == 0) return fmt::format("0 {}", unit_text);
  for (const auto& [factor, text] : prefixes)
    if (amount >= factor) return fmt::format("{:.4g} {}{}", amount / factor, text, unit_text);
  return fmt::format("{} {}", amount, unit_text);
}

std::string byte_amount(std::uint64_t bytes) {
  if (bytes == std::numeric_limits<std::uint64_t>::max()) return "no limit";
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 65536) return fmt::format("{} {}", bytes, bytes == 1 ? "byte" : "bytes");
  std::size_t step = 0;
  while (step + 1 < std::size(units) && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++step;
  }
  return fmt::format("{} {}", bytes, units[step]);
}

std::string amount_text(double amount, unit of) {
  switch (of) {
    case unit::bytes:
      return byte_amount(static_cast<std::uint64_t>(amount));
    case unit::hertz:
      return scaled(amount, "Hz");
    case unit::bits_per_second:
      return scaled(amount, "bit/s");
    case unit::seconds:
      return scaled(amount, "s");
    case unit::lanes:
      return fmt::format("{}", amount);
    case unit::none:
      break;
  }
  return fmt::format("{}", amount);
}

// Formats values that occupy one line. append() formats sections and lists.
struct text_renderer {
  unit of = unit::none;

  std::string operator()(unknown) const { return "-"; }
  std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(std::uint64_t number) const {
    if (of == unit::none) return fmt::format("{}", number);
    return of == unit::bytes ? byte_amount(number) : amount_text(static_cast<double>(number), of);
  }
  std::string operator()(double number) const { return amount_text(number, of); }
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(hexadecimal value) const { return fmt::format("{:#x}", value.number); }
  std::string operator()(const enumerated& value) const { return value.name; }
  std::string operator()(const bit_set& value) const {
    return value.mask == 0 ? "none" : fmt::format("{:#x}", value.mask);
  }
  std::string operator()(const coded& value) const {
    return value.amount ? amount_text(*value.amount, of) : fmt::format("unknown ({})", value.code);
  }
  std::string operator()(const section&) const { return {}; }
  std::string operator()(const std::vector<section>&) const { return {}; }
};

std::string text_of(const field& of) { return std::visit(text_renderer{.of = of.unit}, of.value); }

bool is_shown(const field& of) { return of.audience != audience::programs; }

bool is_small(const section& entry) {
  return std::none_of(entry.begin(), entry.end(), [](const field& of) {
    return std::holds_alternative<section>(of.value) ||
           std::holds_alternative<std::vector<section>>(of.value);
  });
}

// Appends the names of the bits in lines of at most 80 columns, below the mask.
void append_names(std::string& text, const std::vector<std::string>& names) {
  std::string line(value_column, ' ');
  for (const auto& name : names) {
    if (line.size() + name.size() + 1 > columns && line.size() > value_column) {
      text += line + '\n';
      line.assign(value_column, ' ');
    }
    line += (line.size() > value_column ? " " : "") + name;
  }
  if (line.size() > value_column) text += line + '\n';
}

void append_columns(std::string& text, const std::vector<section>& rows, std::size_t depth) {
  std::vector<std::vector<std::string>> cells(1);
  for (const auto& of : rows.front())
    if (is_shown(of)) cells.front().push_back(of.key);
  for (const auto& row : rows) {
    auto& line = cells.emplace_back();
    for (const auto& of : row)
      if (is_shown(of)) line.push_back(text_of(of));
  }
  std::vector<std::size_t> widths(cells.front().size());
  for (const auto& line : cells)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto& line : cells) {
    std::string row(depth * indentation, ' ');
    for (std::size_t i = 0; i < line.size(); ++i)
      row += i + 1 < line.size() ? fmt::format("{:<{}}  ", line[i], widths[i]) : line[i];
    text += row + '\n';
  }
}

void append(std::string& text, const section& fields, std::size_t depth);

void append_list(std::string& text, const field& of, std::size_t depth) {
  const std::string margin(depth * indentation, ' ');
  const auto& list = std::get<std::vector<section>>(of.value);
  if (list.empty()) {
    text += fmt::format("{}{}: none\n", margin, of.key);
  } else if (is_small(list.front())) {
    text += fmt::format("{}{}:\n", margin, of.key);
    append_columns(text, list, depth + 1);
  } else {
    for (const auto& entry : list) {  // the first field is the heading of the entry
      text += fmt::format("{}{} {}\n", margin, entry.front().key, text_of(entry.front()));
      append(text, {entry.begin() + 1, entry.end()}, depth + 1);
    }
  }
}

void append(std::string& text, const section& fields, std::size_t depth) {
  const std::string margin(depth * indentation, ' ');
  for (const auto& of : fields) {
    if (!is_shown(of)) continue;
    if (std::holds_alternative<std::vector<section>>(of.value)) {
      append_list(text, of, depth);
    } else if (const auto* const inner = std::get_if<section>(&of.value)) {
      text += fmt::format("{}{}:\n", margin, of.key);
      append(text, *inner, depth + 1);
    } else {
      text += fmt::format("{:<{}}{}\n", margin + of.key, value_column, text_of(of));
      if (const auto* const set = std::get_if<bit_set>(&of.value)) append_names(text, set->names);
    }
  }
}

}  // namespace

std::string to_table(const section& device) {
  std::string text = fmt::format("{}\n", text_of(device.front()));
  append(text, {device.begin() + 1, device.end()}, 1);
  return text;
}

}  // namespace verbena::tool
