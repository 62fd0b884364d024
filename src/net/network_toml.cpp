// SPDX-License-Identifier: MIT
#include <toml++/toml.h>

#include <algorithm>

#include "src/net/network_text.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// The default port of the crate rrddmma.
constexpr std::int64_t default_port = 13337;

std::string_view kind_of(const ::toml::node& of) {
  switch (of.type()) {
    case ::toml::node_type::table:
      return "a table";
    case ::toml::node_type::array:
      return "an array";
    case ::toml::node_type::floating_point:
      return "a number with a fraction";
    case ::toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

network_value value_of(const ::toml::node& of) {
  if (const auto* const number = of.as_integer()) return number->get();
  if (const auto* const text = of.as_string()) return text->get();
  return other_value{kind_of(of)};
}

class toml_reader {
 public:
  explicit toml_reader(std::string_view name) noexcept : name_(name) {}

  result<std::vector<network_entry>> read(const ::toml::table& root) const {
    const auto* const hosts = root.get("hosts");
    const auto* const crate = root.get("rrddmma");
    if (hosts != nullptr && crate != nullptr)
      return at(*crate).refuse("there are both `hosts` and `rrddmma`");
    if (hosts != nullptr) return hosts_of(*hosts);
    if (crate != nullptr) return peers_of(*crate);
    return network_place{name_}.refuse("the key `hosts` is missing");
  }

 private:
  [[nodiscard]] network_place at(const ::toml::node& of) const noexcept {
    return {name_, of.source().begin.line};
  }
  result<std::vector<network_entry>> hosts_of(const ::toml::node& of) const {
    const auto* const list = of.as_array();
    if (list == nullptr) return at(of).refuse("`hosts` must be an array of tables: [[hosts]]");
    if (list->size() > max_ranks) return too_many(of);
    std::vector<network_entry> entries;
    for (const auto& each : *list) {
      const std::size_t index = entries.size();
      const auto* const table = each.as_table();
      if (table == nullptr)
        return at(each).refuse("hosts[" + std::to_string(index) + "] must be a table");
      auto& made = entries.emplace_back(network_entry{.line = at(each).line});
      for (const auto& [key, value] : *table)
        VERBENA_TRY_VOID(set_member(made, index, key.str(), value_of(value), at(value)));
    }
    return entries;
  }
  result<std::vector<network_entry>> peers_of(const ::toml::node& of) const {
    const auto* const table = of.as_table();
    const auto* const peers = table == nullptr ? nullptr : table->get_as<::toml::array>("peers");
    if (peers == nullptr) return at(of).refuse("`rrddmma` must be a table with the array `peers`");
    if (peers->size() > max_ranks) return too_many(*peers);
    std::vector<network_entry> entries;
    for (const auto& each : *peers) {
      const std::size_t index = entries.size();
      const auto* const host = each.as_string();
      if (host == nullptr)
        return at(each).refuse("peers[" + std::to_string(index) + "] must be a string");
      auto& made = entries.emplace_back(network_entry{.line = at(each).line,
                                                      .is_peer = true,
                                                      .rank = static_cast<std::int64_t>(index),
                                                      .port = default_port,
                                                      .host = host->get()});
      const auto* const port = table->get("port");
      if (port == nullptr) continue;
      made.port.reset();
      made.port_line = at(*port).line;
      VERBENA_TRY_VOID(set_member(made, index, "port", value_of(*port), at(*port)));
    }
    return entries;
  }
  [[nodiscard]] error too_many(const ::toml::node& of) const {
    return at(of).refuse("there are more than " + std::to_string(max_ranks) + " hosts");
  }

  std::string_view name_;
};

}  // namespace

result<std::vector<network_entry>> parse_network_toml(std::string_view text,
                                                      std::string_view name) {
  // toml++ 3.3 has undefined behavior (a shift by 64 bits) for some non-ASCII characters.
  const auto other = std::ranges::find_if(text, [](char c) { return (c & '\x80') != 0; });
  if (other != text.end()) {
    const auto line = 1 + std::ranges::count(text.begin(), other, '\n');
    return network_place{name, static_cast<std::uint32_t>(line)}.refuse(
        "the text has a character that is not ASCII");
  }
  const ::toml::parse_result parsed = ::toml::parse(text);
  if (parsed) return toml_reader(name).read(parsed.table());
  const auto& why = parsed.error();
  return network_place{name, why.source().begin.line}.refuse("the text is not TOML: " +
                                                             std::string(why.description()));
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
