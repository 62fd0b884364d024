// SPDX-License-Identifier: MIT
#include "src/diagnose/files.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <system_error>

namespace verbena::inline VERBENA_ABI::diagnose::detail {
namespace {

constexpr std::string_view blanks = " \t\r\n";

}  // namespace

std::string read_text(const std::filesystem::path& file, std::size_t limit) {
  struct closer {
    void operator()(std::FILE* opened) const { std::fclose(opened); }
  };
  const std::unique_ptr<std::FILE, closer> opened(std::fopen(file.c_str(), "re"));
  std::string text;
  if (opened == nullptr) return text;
  char piece[4096];
  while (text.size() < limit) {
    const std::size_t got = std::fread(piece, 1, sizeof piece, opened.get());
    if (got == 0) break;
    text.append(piece, std::min(got, limit - text.size()));
  }
  return text;
}

std::string read_line(const std::filesystem::path& file) {
  const std::string text = read_text(file, 4096);
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  const auto begin = line.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return std::string(line.substr(begin, line.find_last_not_of(blanks) - begin + 1));
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  // No range-for, because its operator++ throws.
  std::filesystem::directory_iterator entry(folder, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::filesystem::path below(const std::string& root, std::string_view path) {
  return std::filesystem::path(root) / path;
}

bool is_there(const std::filesystem::path& file) {
  std::error_code failed;
  return std::filesystem::exists(file, failed);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const auto begin = line.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const auto end = std::min(line.find_first_of(blanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::optional<std::uint64_t> number_of(std::string_view text, int base) {
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
