// SPDX-License-Identifier: MIT
#include "softdev/peers/peer.hpp"

namespace verbena::softdev {

peer::peer(std::uint32_t slot, std::uint32_t own_slot, route_policy policy, peer_marks& marks)
    : slot_(slot),
      parts_{.status = {},
             .process = {},
             .memory = {},
             .messages = {},
             .sends = outgoing_ring({.memory = parts_.memory,
                                     .messages = parts_.messages,
                                     .full_rings = marks.full_rings,
                                     .slot = slot,
                                     .own_slot = own_slot}),
             .receives = incoming_ring(parts_.memory, parts_.messages),
             .channels = channel_signals(parts_.messages),
             .lanes = section_lanes(parts_.memory),
             .arenas = mapped_arenas({.memory = parts_.memory,
                                      .messages = parts_.messages,
                                      .with_retired = marks.retired_mappings,
                                      .slot = slot,
                                      .policy = policy}),
             .service = {}} {}

void peer::mark_ended(peer_end why) noexcept {
  parts_.status.end(why);
  parts_.messages.shut_down();
}

bool peer::give_up_waiting() noexcept {
  if (gave_up_.exchange(true)) return false;
  mark_ended(peer_end::access_timeout);
  return true;
}

bool peer::may_write_late() const noexcept { return gave_up_ && !parts_.process.watch().exited(); }

bool peer::may_be_inside() const noexcept {
  const pair_memory& memory = parts_.memory;
  if (!memory.has_theirs() || end() == peer_end::broken_protocol) return false;
  bool inside = false;
  pair_memory::for_each_lane(memory.their_lanes(), [&](std::uint32_t lane) {
    inside = inside || (memory.their_lane(lane).load(std::memory_order_seq_cst) & 1U) != 0;
  });
  return inside && !parts_.process.is_gone(parts_.status);
}

}  // namespace verbena::softdev
