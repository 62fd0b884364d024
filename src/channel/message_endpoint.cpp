// SPDX-License-Identifier: MIT
#include "verbena/channel/message_endpoint.hpp"

#include <algorithm>
#include <string>

#include "verbena/base/bytes.hpp"
#include "verbena/verbs/local_slice.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr std::uint8_t wanted = 1;
constexpr std::uint8_t required = 2;
constexpr std::size_t word_bytes = 8;

error broken(const std::string& how) { return error::protocol("message_terms::decode", {}, how); }

result<credits> credits_of(std::uint8_t flags) {
  switch (flags) {
    case 0:
      return credits::off;
    case wanted:
      return credits::preferred;
    case wanted | required:
      return credits::required;
    default:
      return broken("flags " + std::to_string(flags) + " are unknown");
  }
}

}  // namespace

std::array<std::byte, message_terms::encoded_size> message_terms::encode() const noexcept {
  std::array<std::byte, encoded_size> out{};
  const std::uint8_t flags = credits == credits::off         ? 0
                             : credits == credits::preferred ? wanted
                                                             : wanted | required;
  store_network_order<std::uint8_t>(out.data(), wire_version);
  store_network_order<std::uint8_t>(out.data() + 1, flags);
  store_network_order<std::uint8_t>(out.data() + 2, credit_receives);
  store_network_order<std::uint32_t>(out.data() + 4, message_bytes);
  store_network_order<std::uint32_t>(out.data() + 8, receives);
  std::ranges::copy(word.encode(), out.begin() + 12);
  return out;
}

result<message_terms> message_terms::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != encoded_size)
    return broken("the terms of a message channel need " + std::to_string(encoded_size) +
                  " bytes, not " + std::to_string(bytes.size()));
  byte_reader from(bytes);
  // The size was checked: no value is missing.
  const auto version = from.take<std::uint8_t>().value_or(0);
  if (version != wire_version)
    return broken("version " + std::to_string(version) + " is unknown; this side uses version " +
                  std::to_string(wire_version));
  message_terms out;
  VERBENA_TRY(out.credits, credits_of(from.take<std::uint8_t>().value_or(0)));
  out.credit_receives = from.take<std::uint8_t>().value_or(0);
  if (from.take<std::uint8_t>().value_or(1) != 0) return broken("reserved bytes are not zero");
  out.message_bytes = from.take<std::uint32_t>().value_or(0);
  out.receives = from.take<std::uint32_t>().value_or(0);
  if (out.message_bytes == 0 || out.receives == 0)
    return broken("message_bytes and receives must be at least 1");
  VERBENA_TRY(out.word, remote_region::decode(from.rest()));
  if (out.word.length() != word_bytes || out.word.address() % word_bytes != 0)
    return broken("the credit word must be 8 bytes at a multiple of 8");
  return out;
}

std::array<std::byte, message_endpoint::encoded_size> message_endpoint::encode() const noexcept {
  std::array<std::byte, encoded_size> out{};
  std::ranges::copy(terms.encode(), out.begin());
  std::ranges::copy(connection.encode(), out.begin() + message_terms::encoded_size);
  return out;
}

result<message_endpoint> message_endpoint::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != encoded_size)
    return error::protocol("message_endpoint::decode", {},
                           "the endpoint of a message channel needs " +
                               std::to_string(encoded_size) + " bytes, not " +
                               std::to_string(bytes.size()));
  message_endpoint out;
  VERBENA_TRY(out.terms, message_terms::decode(bytes.first(message_terms::encoded_size)));
  VERBENA_TRY(out.connection,
              verbena::endpoint::decode(bytes.subspan(message_terms::encoded_size)));
  return out;
}

}  // namespace verbena::inline VERBENA_ABI
