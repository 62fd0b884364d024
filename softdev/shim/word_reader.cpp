// SPDX-License-Identifier: MIT
#include "softdev/shim/word_reader.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace verbena::softdev {
namespace {

constexpr std::string_view spaces = " \t\r";

}  // namespace

word_reader::word_reader(std::string_view text, std::size_t begin, std::size_t end)
    : text_(text), at_(begin), end_(end) {
  skip();
}

/// Moves to the next word.
void word_reader::skip() noexcept {
  at_ = std::min(text_.find_first_not_of(spaces, at_ + word_.size()), end_);
  word_ = text_.substr(at_, std::min(text_.find_first_of(spaces, at_), end_) - at_);
}

void word_reader::refuse(std::string expected) {
  constexpr std::size_t longest = 40;
  if (!problem_) problem_ = {at_, std::string(word_.substr(0, longest)), std::move(expected)};
}

bool word_reader::accept(std::string_view name) {
  if (word_ != name) return false;
  skip();
  return true;
}

bool word_reader::accept_key(std::string_view name) {
  if (!word_.starts_with(name) || !word_.substr(name.size()).starts_with('=')) return false;
  at_ += name.size() + 1;
  word_.remove_prefix(name.size() + 1);
  return true;
}

std::uint64_t word_reader::number(std::uint64_t least, std::uint64_t most) {
  std::string_view digits = word_;
  const bool hexadecimal = digits.starts_with("0x");
  if (hexadecimal) digits.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
  const bool whole = failed == std::errc{} && end == digits.data() + digits.size();
  if (!whole || value < least || value > most) {
    const std::string to = std::to_string(most);
    refuse(least == most ? to : "a number from " + std::to_string(least) + " to " + to);
    return least;
  }
  skip();
  return value;
}

double word_reader::probability() {
  double value = 0;
  const auto [end, failed] = std::from_chars(word_.data(), word_.data() + word_.size(), value);
  if (failed != std::errc{} || end != word_.data() + word_.size() || !(value > 0 && value <= 1)) {
    refuse("a number above 0, at most 1");
    return 1;
  }
  skip();
  return value;
}

std::chrono::microseconds word_reader::duration() {
  constexpr named<std::uint64_t> units[] = {
      {"", 1'000}, {"us", 1}, {"ms", 1'000}, {"s", 1'000'000}};
  constexpr std::uint64_t longest = 86'400'000'000;
  std::uint64_t count = 0;
  const char* const last = word_.data() + word_.size();
  const auto [end, failed] = std::from_chars(word_.data(), last, count);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  const auto* const found = std::ranges::find(units, unit, &named<std::uint64_t>::name);
  if (failed != std::errc{} || found == std::end(units) || count > longest / found->value) {
    refuse("a duration of at most one day, in milliseconds or with a unit: 500us, 20ms, 1s");
    return {};
  }
  skip();
  return std::chrono::microseconds(count * found->value);
}

bool word_reader::at_number() const noexcept {
  return !word_.empty() && word_.front() >= '0' && word_.front() <= '9';
}

}  // namespace verbena::softdev
