// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <string_view>

#include "src/diagnose/files.hpp"
#include "verbena/diagnose/host_facts.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {
namespace {

using namespace detail;

// Parses an IPv4 address of /proc/net/route, which prints the network-order bytes as one
// little-endian number.
std::optional<std::uint32_t> address_of(std::string_view text) {
  const auto number = number_of(text, 16);
  if (!number || *number > 0xffff'ffffU) return std::nullopt;
  return __builtin_bswap32(static_cast<std::uint32_t>(*number));
}

}  // namespace

std::vector<route> gather_routes(const std::string& root) {
  std::vector<route> routes;
  const std::string text = read_text(below(root, "proc/net/route"));
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() < 8) continue;
    const auto destination = address_of(words[1]);
    const auto mask = address_of(words[7]);
    if (destination && mask)
      routes.push_back(
          {.destination = *destination, .mask = *mask, .interface = std::string(words[0])});
  }
  return routes;
}

// A line contains: destination, its length, source, its length, gateway, metric, three counters,
// interface.
bool has_ipv6_gateway(const std::string& interface, const std::string& root) {
  const std::string text = read_text(below(root, "proc/net/ipv6_route"));
  const auto lines = lines_of(text);
  return std::ranges::any_of(lines, [&](std::string_view line) {
    const auto words = words_of(line);
    return words.size() >= 10 && words[9] == interface &&
           words[4].find_first_not_of('0') != std::string_view::npos;
  });
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
