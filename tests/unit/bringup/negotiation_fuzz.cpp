// SPDX-License-Identifier: MIT
// A negotiation on soft0 with any bytes of the peer.
#include "verbena/bringup/negotiation.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device_list.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::bringup {
namespace {

using fuzz::require;
using rc_negotiation = negotiation<rc>;

struct local_objects {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue queue = device.create_cq(16).value();

  rc_negotiation begin() {
    return rc_negotiation(pd.create_qp<rc>(queue, queue).value(), {.probing = probing::never});
  }
};

local_objects& objects() {
  // Before the library lists devices for the first time.
  static const int only = ::setenv("VERBENA_SOFTDEV", "only", 1);
  require(only == 0);
  static local_objects made;
  return made;
}

// Passes bytes of the peer in parts of at most `fragment`.
void receive(rc_negotiation& to, fuzz::input bytes, std::size_t fragment) {
  auto now = deadline::clock::now();
  while (true) {
    to.advance(now);
    to.sent(to.outgoing().size());
    if (to.status() == negotiation_status::waiting_for_receives) to.set_ready();
    const auto part = bytes.first(std::min({to.bytes_wanted(), bytes.size(), fragment}));
    if (part.empty()) break;
    require(to.received(part) == part.size());
    bytes = bytes.subspan(part.size());
    now += std::chrono::milliseconds(1);
  }
  to.advance(now);
}

// The first byte is the size of the fragments, and how the connection ends.
void run_negotiation(fuzz::input input) {
  fuzz::reader from(input);
  const auto first = from.take<std::uint8_t>();
  auto one = objects().begin();
  receive(one, from.rest(), std::size_t{first} / 2 + 1);
  one.sent(one.outgoing().size());
  if (!one.is_done()) {
    if (first % 2 == 0)
      one.peer_closed();
    else
      one.time_out();
  }
  one.sent(one.outgoing().size());
  require(one.is_done());
  if (one.status() == negotiation_status::failed) {
    require(!one.failure().message().empty());
    return;
  }
  const auto made = std::move(one).finish();
  require(made && made->message.size() <= max_ready_bytes);
}

// Both sides in one process; the seed is what one of them sends.
void negotiation_seeds(fuzz::seed_folder& into) {
  auto here = objects().begin();
  auto there = objects().begin();
  fuzz::writer sent;
  sent.put(std::uint8_t{255});
  const auto transfer = [&](rc_negotiation& from, rc_negotiation& to) {
    const auto out = from.outgoing();
    const auto part = out.first(std::min(out.size(), to.bytes_wanted()));
    require(to.received(part) == part.size());
    if (&to == &here) sent.put(part);
    from.sent(part.size());
  };
  for (int turns = 0; turns < 100; ++turns) {
    for (rc_negotiation* const each : {&here, &there}) {
      each->advance(deadline::clock::now());
      if (each->status() == negotiation_status::waiting_for_receives) each->set_ready();
    }
    transfer(here, there);
    transfer(there, here);
  }
  require(here.status() == negotiation_status::finished);
  into.add("complete", sent.bytes());
  const auto add = [&](const char* name, frame_type type, std::span<const std::byte> payload) {
    fuzz::writer out;
    out.put(std::uint8_t{7}).put(encode_greeting({.lowest = 1, .highest = 1}));
    out.put(std::span<const std::byte>(encode_frame(type, payload)));
    out.put(std::span<const std::byte>(encode_frame(frame_type::ready, {})));
    into.add(name, out.bytes());
  };
  const endpoint side{
      .queue_pair = queue_pair_number(17), .gid = parse_gid("127.0.0.1"), .mtu = mtu::bytes_1024};
  add("version_1", frame_type::endpoint, side.encode());
  add("refusal", frame_type::refusal, bytes_of("no"));
}

const fuzz::target negotiations("negotiation", run_negotiation, negotiation_seeds);

}  // namespace
}  // namespace verbena::bringup
