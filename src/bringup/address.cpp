// SPDX-License-Identifier: MIT
#include "verbena/bringup/address.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "src/base/hash.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

constexpr std::size_t max_host_characters = 253;

error refused(std::string_view text, std::string_view why) {
  return error::invalid_argument("parse_address", std::string("'").append(text).append("'"), why);
}

std::optional<std::uint16_t> parse_port(std::string_view digits) {
  std::uint16_t port = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, port);
  if (digits.empty() || problem != std::errc{} || stop != end) return std::nullopt;
  return port;
}

bool valid_host(std::string_view host) {
  return !host.empty() && host.size() <= max_host_characters &&
         std::ranges::all_of(host, [](unsigned char c) {
           return c > 0x20 && c != 0x7f && c != '[' && c != ']' && c != '/';
         });
}

}  // namespace

result<address> parse_address(std::string_view text, std::uint16_t default_port) {
  std::string_view host = text;
  std::optional<std::string_view> digits;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return refused(text, "the bracket is not closed");
    host = text.substr(1, close - 1);
    const auto rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':')
      return refused(text, "only `:port` may follow the bracket");
    if (!rest.empty()) digits = rest.substr(1);
  } else if (std::ranges::count(text, ':') == 1) {
    const auto colon = text.find(':');
    host = text.substr(0, colon);
    digits = text.substr(colon + 1);
  }
  if (!valid_host(host))
    return refused(text, "write it as host, host:port, 192.0.2.1:port or [2001:db8::1]:port");
  address where{.host = std::string(host), .port = default_port};
  if (digits) {
    const auto port = parse_port(*digits);
    if (!port) return refused(text, "the port must be a number from 0 to 65535");
    where.port = *port;
  }
  return where;
}

std::string to_string(const address& where) {
  const bool brackets = where.host.find(':') != std::string::npos;
  std::string text = brackets ? "[" + where.host + "]" : where.host;
  return text + ":" + std::to_string(where.port);
}

}  // namespace verbena::inline VERBENA_ABI::bringup

std::size_t std::hash<verbena::bringup::address>::operator()(
    const verbena::bringup::address& of) const noexcept {
  return verbena::detail::hash_members(of.host, of.port);
}
