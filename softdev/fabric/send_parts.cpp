// SPDX-License-Identifier: MIT
#include "softdev/fabric/send_parts.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "softdev/core/route.hpp"
#include "softdev/fabric/records.hpp"
#include "softdev/fabric/send_ring.hpp"

namespace verbena::softdev {

using namespace records;

std::uint32_t longest_part(const peer& to, transport kind) noexcept {
  return std::min(payload_bytes, to.max_record() / 2 - request_bytes(kind, opcode::rdma_write));
}

/// Returns the process that has the queue pair `qpn`, and begins to pair if it is new. Returns
/// nullptr if memory is exhausted.
peer* part_sender::find_peer(const queue_pair& sender, connection& by, std::uint32_t qpn) noexcept {
  const std::uint32_t slot = slot_of_number(qpn);
  // `by.peers` is sorted by slot.
  const auto at =
      std::ranges::lower_bound(by.peers, slot, {}, [](const auto& e) { return e->slot(); });
  if (at != by.peers.end() && (*at)->slot() == slot) return at->get();
  auto found = state_.try_connect(slot);
  if (found == nullptr) return nullptr;
  if (found->state() == peer_state::connecting)
    state_.home.ring(sender);  // wakes the thread that services the link
  try {
    return by.peers.insert(at, std::move(found))->get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

response part_sender::send(queue_pair& sender, connection& by, const message& what,
                           std::span<const segment> local) noexcept {
  peer* const known = find_peer(sender, by, what.destination_qpn);
  if (known == nullptr) return without_answer(reason::peer_unreachable, what);
  peer& to = *known;
  if (to.state() == peer_state::connecting) state_.wait_for_room(sender, to);
  switch (to.state()) {
    case peer_state::connecting:
      if (!to.is_overdue()) return {.outcome = verdict::blocked};
      state_.stop_waiting(sender);
      return from_overdue(what);
    case peer_state::dead:
      // The process is looked up again after its requests in flight have ended.
      state_.note_lost(sender);
      return from_dead(to, what);
    case peer_state::paired:
      break;
  }
  state_.successes.flush();
  constexpr bool earlier_done = true;  // requests over SRD have no order
  response out;
  if (state_.direct.execute(sender, to, {what, local, earlier_done}, out)) return out;
  out = push(sender, to, what, local);
  if (out.outcome == verdict::pending && consumes_receive(what.opcode))
    static_cast<void>(signal_receiver(to, by, announced_requests(what)));
  return out;
}

/// Sends the whole request, or its first part: a write without immediate data, or a shorter read.
response part_sender::push(queue_pair& sender, peer& to, const message& what,
                           std::span<const segment> local) noexcept {
  const std::uint32_t longest = longest_part(to, what.transport);
  request_part part{what.opcode, what.length};
  if (what.length > longest) {
    if (is_send(what.opcode))
      return {.outcome = verdict::invalid_request,
              .why = {.why = reason::message_too_long, .length = what.length, .limit = longest}};
    part.length = longest;
    if (is_write(what.opcode)) part.opcode = opcode::rdma_write;
  }
  const std::byte* bad = nullptr;
  pushed all = push_part(to, what, part, local, bad);
  if (all == pushed::no_room) {
    // Try once more: room may have returned before the queue pair was known to wait.
    state_.wait_for_room(sender, to);
    all = push_part(to, what, part, local, bad);
    if (all == pushed::no_room) return {.outcome = verdict::blocked};
  }
  if (all == pushed::refused) return local_fault(bad);
  state_.note_by_ring(sender, to);
  return {.outcome = verdict::pending, .original = part.length};
}

pushed part_sender::push_part(peer& to, const message& what, const request_part& part,
                              std::span<const segment> local, const std::byte*& bad) noexcept {
  const std::uint32_t payload = part.opcode == opcode::rdma_read ? 0 : part.length;
  const auto lock = to.lock_sends();
  const auto record =
      to.try_reserve(type::request, request_bytes(what.transport, part.opcode) + payload,
                     state_.reserve_for_answers());
  if (record.status != ring_status::ok) return pushed::no_room;
  std::span<std::byte> room = record.payload;
  put_request_part(room, what, part);
  bad = put_payload(room.first(payload), local, 0);
  if (bad != nullptr) return pushed::refused;
  to.commit();
  to.announce();
  return pushed::all;
}

/// Ends the requests in flight to processes that died. Both locks of the queue pair are held.
void part_sender::report_lost(queue_pair& which, connection& mine) noexcept {
  const auto is_dead = [](const auto& known) { return known->state() == peer_state::dead; };
  for (const auto& known : mine.peers) {
    if (!is_dead(known)) continue;
    const std::uint32_t first = first_number_of(known->slot());
    const failure why = is_out_of_reach(known->end())
                            ? failure{.why = reason::no_acknowledgement, .detail = first}
                            : loss_of(*known, first);
    which.sender().process_lost(known->slot(), why);
    state_.home.ring(which);
  }
  std::erase_if(mine.peers, is_dead);
}

}  // namespace verbena::softdev
