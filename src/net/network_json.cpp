// SPDX-License-Identifier: MIT
// Parses the JSON list of hosts. The parser reads through an iterator that records the position of
// the last byte read, from which the line of each event is computed.
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "src/net/network_text.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

class reading_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  reading_iterator(const char* at, const char*& last_read) noexcept
      : at_(at), last_read_(&last_read) {}
  reference operator*() const noexcept { return *at_; }
  reading_iterator& operator++() noexcept {
    *last_read_ = at_++;
    return *this;
  }
  reading_iterator operator++(int) noexcept {
    auto before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const reading_iterator& one, const reading_iterator& other) noexcept {
    return one.at_ == other.at_;
  }

 private:
  const char* at_;
  const char** last_read_;
};

class json_reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  json_reader(std::string_view text, std::string_view name) noexcept
      : name_(name), last_read_(text.data()), counted_(text.data()) {}

  [[nodiscard]] const char*& last_read() noexcept { return last_read_; }
  result<std::vector<network_entry>> take() {
    if (failure_) return *std::move(failure_);
    if (!has_hosts_) return network_place{name_}.refuse("the key `hosts` is missing");
    return std::move(entries_);
  }

  bool null() override { return value(other_value{"null"}); }
  bool boolean(bool /*of*/) override { return value(other_value{"a boolean"}); }
  bool number_integer(number_integer_t of) override { return value(of); }
  bool number_unsigned(number_unsigned_t of) override {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    if (of > number_unsigned_t{most}) return beyond_range(std::to_string(of));
    return value(static_cast<std::int64_t>(of));
  }
  // The parser also calls it for integers beyond the range of 64 bits.
  bool number_float(number_float_t /*of*/, const string_t& text) override {
    if (text.find_first_of(".eE") == string_t::npos) return beyond_range(text);
    return value(other_value{"a number with a fraction"});
  }
  bool string(string_t& of) override { return value(std::move(of)); }
  bool binary(binary_t& /*of*/) override { return value(other_value{"binary data"}); }
  bool start_object(std::size_t /*elements*/) override {
    count_lines();
    if (depth_ == 2 && in_hosts_) {
      if (entries_.size() == max_ranks)
        return fail("there are more than " + std::to_string(max_ranks) + " hosts");
      entries_.push_back({.line = line_});
    } else if (depth_ != 0 && !value(other_value{"an object"})) {
      return false;
    }
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    count_lines();
    if (depth_ == 1 && key_ == hosts_key) {
      if (has_hosts_) return fail("the key `hosts` occurs twice");
      has_hosts_ = in_hosts_ = true;
    } else if (!value(other_value{"an array"})) {
      return false;
    }
    ++depth_;
    return true;
  }
  bool end_array() override {
    if (--depth_ == 1) in_hosts_ = false;
    return true;
  }
  bool key(string_t& of) override {
    key_ = std::move(of);
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& last_token,
                   const nlohmann::detail::exception& /*why*/) override {
    count_lines();
    return fail(last_token.empty() ? "the text is not JSON"
                                   : "the text is not JSON near `" + last_token + "`");
  }

 private:
  static constexpr std::string_view hosts_key = "hosts";

  bool beyond_range(const std::string& number) {
    const auto text =
        number + (number.starts_with('-') ? ", which is too small" : ", which is too large");
    return value(other_value{text});
  }
  // Handles a value, or the start of an object or array other than `hosts` and its elements.
  bool value(network_value of) {
    count_lines();
    if (depth_ == 0) return fail("the text must be an object with the key `hosts`");
    if (depth_ == 1 && key_ == hosts_key) return fail("`hosts` must be an array");
    if (!in_hosts_) return true;
    if (depth_ == 2)
      return fail("hosts[" + std::to_string(entries_.size()) + "] must be an object");
    if (depth_ != 3) return true;
    auto done = set_member(entries_.back(), entries_.size() - 1, key_, std::move(of),
                           network_place{name_, line_});
    if (!done) failure_.emplace(std::move(done).error());
    return !failure_;
  }
  bool fail(const std::string& why) {
    if (!failure_) failure_.emplace(network_place{name_, line_}.refuse(why));
    return false;
  }
  // Counts the lines up to the last byte read. A token ends at or before that byte.
  void count_lines() noexcept {
    for (; counted_ < last_read_; ++counted_) line_ += *counted_ == '\n' ? 1 : 0;
  }

  std::string_view name_;
  const char* last_read_;
  const char* counted_;
  std::uint32_t line_ = 1;
  int depth_ = 0;
  bool has_hosts_ = false;
  bool in_hosts_ = false;
  std::string key_;
  std::vector<network_entry> entries_;
  std::optional<error> failure_;
};

}  // namespace

result<std::vector<network_entry>> parse_network_json(std::string_view text,
                                                      std::string_view name) {
  json_reader reader(text, name);
  const reading_iterator first(text.data(), reader.last_read());
  const reading_iterator last(text.data() + text.size(), reader.last_read());
  // Without strict mode, text after the object would be ignored.
  constexpr bool is_strict = true;
  static_cast<void>(nlohmann::json::sax_parse(first, last, &reader,
                                              nlohmann::detail::input_format_t::json, is_strict));
  return reader.take();
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
