// SPDX-License-Identifier: MIT
// Words of a command, with their positions for error messages.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::softdev {

/// A word that is not permitted at its place.
struct invalid_word {
  std::size_t at = 0;    ///< bytes before it in the text
  std::string word;      ///< empty: the command ends here
  std::string expected;  ///< the remedy: the permitted values
};

/// Reads the words of one command from left to right. After an invalid word, the returned values
/// are in their ranges and otherwise unspecified. Allocates.
/// Threads: one thread at a time.
class word_reader {
 public:
  /// The command is the part of the text from `begin` to `end`.
  word_reader(std::string_view text, std::size_t begin, std::size_t end);

  [[nodiscard]] bool at_end() const noexcept { return word_.empty(); }
  /// Returns the next word; empty at the end.
  [[nodiscard]] std::string_view peek() const noexcept { return word_; }
  [[nodiscard]] const std::optional<invalid_word>& problem() const noexcept { return problem_; }
  /// Marks the next word as invalid.
  void refuse(std::string expected);

  /// Begins a command inside another one. Returns false if more than `most` are inside each other.
  [[nodiscard]] bool nest(unsigned most) noexcept { return ++nested_ <= most; }

  /// Returns whether the next word is `name`, and reads it.
  [[nodiscard]] bool accept(std::string_view name);
  /// If the next word is `name=VALUE`, makes VALUE the next word.
  [[nodiscard]] bool accept_key(std::string_view name);
  /// Reads a number, decimal or with 0x.
  [[nodiscard]] std::uint64_t number(std::uint64_t least, std::uint64_t most);
  /// Reads a number above 0, at most 1.
  [[nodiscard]] double probability();
  /// Reads a duration of at most one day: a number of milliseconds, or with a unit (us, ms, s).
  [[nodiscard]] std::chrono::microseconds duration();
  /// Returns whether the next word begins with a digit.
  [[nodiscard]] bool at_number() const noexcept;
  /// Reads the name of a row of the table and returns its value.
  template <class Table>
  [[nodiscard]] auto choose(const Table& table);
  /// Reads names of rows with commas between them.
  template <class Table>
  [[nodiscard]] std::vector<decltype(Table::value_type::value)> choose_several(const Table& table);

 private:
  void skip() noexcept;

  std::string_view text_;
  std::size_t at_;
  std::size_t end_;
  std::string_view word_;
  std::optional<invalid_word> problem_;
  unsigned nested_ = 0;
};

/// A value and its name in commands.
template <class Value>
struct named {
  std::string_view name;
  Value value;
};

/// Returns the names, for word_reader::refuse.
template <class Table>
std::string names_of(const Table& table) {
  std::string all;
  for (const auto& row : table) all.append(all.empty() ? "" : ", ").append(row.name);
  return all;
}

template <class Table>
auto word_reader::choose(const Table& table) {
  for (const auto& row : table)
    if (accept(row.name)) return row.value;
  refuse("one of " + names_of(table));
  return table.front().value;
}

template <class Table>
std::vector<decltype(Table::value_type::value)> word_reader::choose_several(const Table& table) {
  std::vector<decltype(Table::value_type::value)> chosen;
  const std::string_view all = word_;
  for (std::string_view left = all; !problem_;) {
    word_ = left.substr(0, left.find(','));
    const std::string_view part = word_;
    const auto row = std::ranges::find(table, part, &Table::value_type::name);
    if (row == table.end()) {
      refuse("one of " + names_of(table));
      break;
    }
    chosen.push_back(row->value);
    if (part.size() == left.size()) break;
    at_ += part.size() + 1;
    left.remove_prefix(part.size() + 1);
  }
  skip();
  return chosen;
}

}  // namespace verbena::softdev
