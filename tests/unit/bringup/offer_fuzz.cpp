// SPDX-License-Identifier: MIT
// Two offers as peers may send them, and the decision about them.
#include "verbena/bringup/offer.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "tests/fuzz/target.hpp"
#include "verbena/bringup/agreement.hpp"

namespace verbena::bringup {
namespace {

using fuzz::require;

std::optional<offer> decoded(fuzz::input bytes) {
  auto got = offer::decode(bytes);
  if (!got) {
    require(got.error().kind() == error_kind::protocol);
    return std::nullopt;
  }
  require(got->gids.size() <= offer::max_gids && got->device.size() <= offer::max_device_name);
  // The encoding is unique.
  const auto again = got->encode();
  require(std::ranges::equal(again, bytes) && again.size() <= offer::max_encoded_bytes);
  return *std::move(got);
}

// Both sides come to the same decision.
void check_decision(const offer& ours, const offer& theirs) {
  const decision here = decide(ours, theirs);
  const decision there = decide(theirs, ours);
  require(here.has_value() == there.has_value());
  if (!here) {
    require(here.error().reason == there.error().reason && !here.error().text.empty());
    require(!to_error(here.error(), "fuzz").message().empty());
    return;
  }
  require(here->our_gid == there->their_gid && here->their_gid == there->our_gid);
  require(!here->our_gid || *here->our_gid < ours.gids.size());
  require(!here->their_gid || *here->their_gid < theirs.gids.size());
  require(here->mtu == there->mtu && here->mtu <= std::min(ours.mtu, theirs.mtu));
  require(here->inline_bytes == there->inline_bytes && here->probe == there->probe);
  require(here->ours == there->theirs && here->theirs == there->ours);
  require(here->reach == there->reach && !to_string(*here, ours, theirs).empty());
}

// The first byte says how many bytes, divided by four, the first offer has.
void run_offer(fuzz::input input) {
  fuzz::reader from(input);
  const auto ours = decoded(from.take_bytes(std::size_t{4} * from.take<std::uint8_t>()));
  const auto theirs = decoded(from.rest());
  if (ours) check_decision(*ours, *ours);
  if (ours && theirs) check_decision(*ours, *theirs);
}

void offer_seeds(fuzz::seed_folder& into) {
  const auto add = [&](const char* name, const offer& first, const offer& second) {
    const auto ours = first.encode();
    fuzz::writer out;
    into.add(name, out.put(static_cast<std::uint8_t>(ours.size() / 4))
                       .put(std::span<const std::byte>(ours))
                       .put(std::span<const std::byte>(second.encode()))
                       .bytes());
  };
  const auto of = [](const char* text, std::uint8_t prefix, gid_type type = gid_type::roce_v2) {
    return offered_gid{
        .gid = parse_gid(text).value(), .type = type, .index = gid_index(1), .prefix_bits = prefix};
  };
  // With names of two characters, the encoding has a multiple of four bytes.
  offer first{.device = "m0", .gids = {of("192.0.2.1", 120), of("fe80::1", 64)}};
  offer second{.device = "m0", .gids = {of("fe80::2", 64), of("192.0.2.2", 120)}};
  add("subnet", first, second);
  first.gids = {of("2001:db8::1", 64), of("fe80::1", 64, gid_type::roce_v1)};
  second.gids = {of("2001:db8:1::1", 64)};
  for (offer* const side : {&first, &second}) side->gids[0].routed = true;
  add("routed", first, second);
  first.explicit_gid = true;
  first.gids.resize(1);
  first.probe = offered_queue_pair{queue_pair_number(17), packet_sequence_number(18)};
  add("explicit_gid_and_probe", first, second);
  const offer lids{.link_layer = link_layer::infiniband, .device = "m0", .lid = lid(4)};
  add("lids", lids, lids);
  const offer soft{.fabric = fabric::this_host, .device = "s0", .gids = {of("127.0.0.1", 104)}};
  add("soft", soft, soft);
  offer networked = soft;
  networked.fabric = fabric::soft_network;
  add("soft_network", soft, networked);
  add("datagrams", {.transport = offered_transport::ud, .device = "m0", .key = queue_key(7)},
      {.fabric = fabric::iwarp, .port_up = false, .device = "w0"});
}

const fuzz::target offers("offer", run_offer, offer_seeds);

}  // namespace
}  // namespace verbena::bringup
