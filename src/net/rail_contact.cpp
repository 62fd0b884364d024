// SPDX-License-Identifier: MIT
#include "src/net/rail_contact.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "src/net/rail_message.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

constexpr std::uint8_t rail_contact_type = 1;
constexpr std::uint8_t rail_failure_type = 2;
constexpr std::uint8_t rail_opening_type = 3;
constexpr std::uint8_t rail_contact_version = 1;
constexpr std::size_t most_failure_bytes = 1024;

error no_contact(std::span<const std::byte> bytes) {
  return error::protocol("group_rails::connect", {},
                         fmt::format("{} bytes are no message of a rank that connects rails; use "
                                     "one version of the library in all processes",
                                     bytes.size()));
}

std::vector<std::byte> begin_message(std::uint8_t type) {
  return {static_cast<std::byte>(type), static_cast<std::byte>(rail_contact_version)};
}

}  // namespace

std::vector<std::byte> encode(const rail_contact& of) {
  auto out = begin_message(rail_contact_type);
  out.push_back(static_cast<std::byte>(of.rails));
  put_bytes(out, of.token);
  const std::string where = to_string(of.acceptor);
  put_bytes(out, bytes_of(where));
  return out;
}

std::vector<std::byte> encode(const rail_failure& of) {
  std::vector<std::byte> out{static_cast<std::byte>(rail_failure_type)};
  put_bytes(out, bytes_of(of.reason).first(std::min(of.reason.size(), most_failure_bytes)));
  return out;
}

std::vector<std::byte> encode(const rail_opening& of) {
  auto out = begin_message(rail_opening_type);
  put_bytes(out, of.token);
  std::array<std::byte, sizeof of.rank> rank{};
  store_network_order(rank.data(), of.rank);
  put_bytes(out, rank);
  return out;
}

result<std::variant<rail_contact, rail_failure>> decode_rail_contact(
    std::span<const std::byte> bytes) {
  using either = std::variant<rail_contact, rail_failure>;
  byte_reader from(bytes);
  const auto type = from.take<std::uint8_t>();
  if (type == rail_failure_type) {
    return either(rail_failure{.reason = printable_reason(from.rest())});
  }
  const auto version = from.take<std::uint8_t>();
  const auto rails = from.take<std::uint8_t>();
  const auto token = take_token(from);
  if (type != rail_contact_type || version != rail_contact_version || !token)
    return no_contact(bytes);
  const auto text = from.rest();
  VERBENA_TRY(auto where, bringup::parse_address(std::string_view(
                              reinterpret_cast<const char*>(text.data()), text.size())));
  if (where.port == 0) return no_contact(bytes);
  return either(rail_contact{.rails = *rails, .token = *token, .acceptor = std::move(where)});
}

result<rail_opening> decode_rail_opening(std::span<const std::byte> bytes) {
  byte_reader from(bytes);
  const auto type = from.take<std::uint8_t>();
  const auto version = from.take<std::uint8_t>();
  const auto token = take_token(from);
  const auto rank = from.take<std::uint32_t>();
  if (type != rail_opening_type || version != rail_contact_version || !token || !rank ||
      !from.rest().empty())
    return no_contact(bytes);
  return rail_opening{.token = *token, .rank = *rank};
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
