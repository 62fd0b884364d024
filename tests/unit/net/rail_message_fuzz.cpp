// SPDX-License-Identifier: MIT
// Fuzzes the decoders of messages between rails, of regions of rails, and of the first message at
// the acceptor of a group, which a peer sends.
#include <algorithm>

#include "src/net/rail_contact.hpp"
#include "src/net/rail_message.hpp"
#include "tests/fuzz/target.hpp"
#include "verbena/net/rail_memory.hpp"

namespace verbena::net::detail {
namespace {

using fuzz::require;

constexpr std::uint32_t rails = 3;

void check_message(fuzz::input bytes) {
  const auto message = decode_rail_message(bytes, rails);
  if (!message) {
    const auto kind = message.error().kind();
    return require(kind == error_kind::protocol || kind == error_kind::invalid_argument);
  }
  require(message->rail < rails);
  const bool has_endpoint =
      message->kind == rail_message_kind::connect || message->kind == rail_message_kind::connected;
  require(message->endpoint.has_value() == has_endpoint);
  require(std::ranges::all_of(message->reason, [](char c) { return c >= ' ' && c <= '~'; }));
  const auto again = encode(*message);
  // Characters that cannot be printed are replaced.
  if (message->kind == rail_message_kind::refused) return require(again.size() == bytes.size());
  require(std::ranges::equal(again, bytes));
}

void check_region(fuzz::input bytes) {
  const auto region = rail_region::decode(bytes);
  if (!region) return require(region.error().kind() == error_kind::protocol);
  require(region->rails() >= 1 && region->rails() <= max_rails);
  require(std::ranges::equal(region->encode(), bytes));
  for (std::uint32_t rail = 0; rail < region->rails(); ++rail)
    require(region->on(rail).length() == region->length());
}

void check_opening(fuzz::input bytes) {
  const auto opening = decode_rail_opening(bytes);
  if (!opening) return require(opening.error().kind() == error_kind::protocol);
  require(std::ranges::equal(encode(*opening), bytes));
}

void run_rail_message(fuzz::input input) {
  check_message(input);
  check_region(input);
  check_opening(input);
}

void rail_message_seeds(fuzz::seed_folder& into) {
  using kind = rail_message_kind;
  const verbena::endpoint peer{.queue_pair = queue_pair_number(9),
                               .first_psn = packet_sequence_number(7),
                               .lid = verbena::lid(3)};
  into.add("connect", encode({.kind = kind::connect, .generation = 1, .endpoint = peer}));
  into.add("connected",
           encode({.kind = kind::connected, .rail = 2, .generation = 1, .endpoint = peer}));
  into.add("refused",
           encode({.kind = kind::refused, .rail = 1, .generation = 2, .reason = "no queue pair"}));
  into.add("fence", encode({.kind = kind::fence, .rail = 1, .generation = 3}));
  into.add("fenced", encode({.kind = kind::fenced, .rail = 1, .generation = 3}));
  into.add("port", encode({.kind = kind::port, .rail = 1, .generation = 1}));
  into.add("opening", encode(rail_opening{.token = {}, .rank = 4}));
  // Version, rails, address, length, keys.
  fuzz::writer region;
  region.put(std::uint8_t{1}).put(std::uint8_t{2}).put(std::uint64_t{0}).put(std::uint64_t{0});
  into.add("region", region.put(std::uint64_t{0}).bytes());
}

const fuzz::target rail_messages("rail_message", run_rail_message, rail_message_seeds);

}  // namespace
}  // namespace verbena::net::detail
