// SPDX-License-Identifier: MIT
// SRD between processes. A request that cannot be executed by its sender's thread goes through the
// ring in parts, one at a time; each part is a record of its own that is answered at once. So a
// receiver keeps nothing between two records, whatever becomes of a sender, and records of many
// senders may come in any order. What has no room for its answer is sent back to be tried again:
// kept in the ring, it could hold up the very records that make room.
#include <algorithm>

#include "softdev/core/copy.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/fabric/endpoint.hpp"

namespace verbena::softdev {
namespace {

using namespace records;

/// The longest payload of a part between two processes. Both have rings of one size.
std::uint32_t longest_part(const peer& to) noexcept {
  return std::min(payload_bytes,
                  to.max_record() / 2 - request_bytes(transport::srd, opcode::rdma_write));
}

}  // namespace

/// The process that has the queue pair `qpn`; contact is made with one that is new.
peer& fabric_endpoint::find_delivery_peer(const queue_pair& sender, connection& by,
                                          std::uint32_t qpn) noexcept {
  const std::uint32_t slot = qpn / limits::queue_pair_indices;
  for (const auto& known : by.peers)
    if (known->slot() == slot) return *known;
  peer& found = *by.peers.emplace_back(link_.connect(slot));
  if (found.state() == peer_state::connecting) home_.ring(sender);  // wakes who services the link
  return found;
}

response fabric_endpoint::submit_delivery(queue_pair& sender, connection& by, const message& what,
                                          std::span<const segment> local) noexcept {
  peer& to = find_delivery_peer(sender, by, what.destination_qpn);
  if (to.state() == peer_state::connecting) blocked_.insert(index_of(sender));
  switch (to.state()) {
    case peer_state::connecting:
      if (to.is_overdue()) return from_overdue(what);
      return {.outcome = verdict::blocked};
    case peer_state::dead:
      // It is looked for anew when what was on its way to it has ended.
      some_lost_.store(true, std::memory_order_release);
      return from_dead(to, what);
    case peer_state::paired:
      break;
  }
  acknowledgements_.flush();
  constexpr bool earlier_done = true;  // requests over SRD have no order
  if (const auto out = direct_.execute(sender, to, what, local, earlier_done)) return *out;
  const response out = push_delivery(sender, to, what, local);
  if (out.outcome == verdict::pending && consumes_receive(what.opcode))
    signal_receiver(to, by, what);
  return out;
}

/// Sends the whole request, or its first part: a write without immediate data, or a shorter read.
response fabric_endpoint::push_delivery(queue_pair& sender, peer& to, const message& what,
                                        std::span<const segment> local) noexcept {
  const std::uint32_t longest = longest_part(to);
  request_part part{what.opcode, what.length};
  if (what.length > longest) {
    if (is_send(what.opcode))
      return {.outcome = verdict::invalid_request,
              .why = {.why = reason::message_too_long, .length = what.length, .limit = longest}};
    part.length = longest;
    if (is_write(what.opcode)) part.opcode = opcode::rdma_write;
  }
  const std::byte* bad = nullptr;
  pushed all = push_delivery_part(to, what, part, local, bad);
  if (all == pushed::no_room) {
    // Room that came back before it was known that we wait is found by trying once more.
    blocked_.insert(index_of(sender));
    all = push_delivery_part(to, what, part, local, bad);
    if (all == pushed::no_room) return {.outcome = verdict::blocked};
  }
  if (all == pushed::refused) return local_fault(bad);
  count(by_ring_);
  return {.outcome = verdict::pending, .original = part.length};
}

fabric_endpoint::pushed fabric_endpoint::push_delivery_part(peer& to, const message& what,
                                                            const request_part& part,
                                                            std::span<const segment> local,
                                                            const std::byte*& bad) noexcept {
  const std::uint32_t payload = part.opcode == opcode::rdma_read ? 0 : part.length;
  const auto lock = to.lock_sends();
  const auto record =
      to.try_reserve(type::request, request_bytes(what.transport, part.opcode) + payload,
                     link_.options().ring_bytes / 2);
  if (record.status != ring_status::ok) return pushed::no_room;
  std::span<std::byte> room = record.payload;
  put_request_part(room, what, part);
  bad = put_payload(room.first(payload), local, 0);
  if (bad != nullptr) return pushed::refused;
  to.commit();
  to.announce();
  return pushed::all;
}

/// Executes a request or a part of one. Wants the receive lock of the queue pair.
void fabric_endpoint::receive_delivery(queue_pair& target, peer& from, const message& what,
                                       std::span<const std::byte> payload) noexcept {
  responder& receiver = target.receiver();
  response outcome = receiver.begin(what);
  if (outcome.outcome != verdict::done) return answer(from, what, outcome);
  if (what.opcode == opcode::rdma_read) return answer_delivery_read(target, from, what);
  outcome = receiver.place(payload);
  // It is told before a program can see the completion, or its reply could come first.
  answer(from, what, outcome);
  if (outcome.outcome == verdict::done) static_cast<void>(receiver.finish());
}

void fabric_endpoint::answer_delivery_read(queue_pair& target, peer& from,
                                           const message& what) noexcept {
  responder& receiver = target.receiver();
  if (what.length > longest_part(from))
    return answer(from, what,
                  {.outcome = verdict::invalid_request, .why = {.why = reason::bad_request}});
  segment source{nullptr, 0};
  response outcome = receiver.read(0, what.length, source);
  if (outcome.outcome == verdict::done && source.bytes > 0) {
    const auto lock = from.lock_sends();
    const auto bytes = static_cast<std::uint32_t>(sizeof(fragment_header) + source.bytes);
    const auto record = from.try_reserve(type::data, bytes, link_.options().ring_bytes / 2);
    if (record.status == ring_status::ok) {
      std::span<std::byte> room = record.payload;
      put(room, fragment_header{what.source_qpn, what.destination_qpn, what.psn, what.attempt, 0});
      if (copy_payload(room.data(), source.data, source.bytes) == copy_fault::none)
        from.commit();
      else
        outcome = receiver.refuse_unmapped(0, source.bytes);
    } else {
      outcome = {.outcome = verdict::blocked};
    }
    from.announce();
  }
  if (outcome.outcome == verdict::done) outcome = receiver.finish();
  answer(from, what, outcome);
}

/// Ends what was on its way to processes that died. Wants both locks of the queue pair.
void fabric_endpoint::tell_deliveries_lost(queue_pair& which, connection& mine) noexcept {
  const auto is_dead = [](const auto& known) { return known->state() == peer_state::dead; };
  for (const auto& known : mine.peers) {
    if (!is_dead(known)) continue;
    const std::uint32_t first = known->slot() * limits::queue_pair_indices;
    const reason why =
        is_out_of_reach(known->end()) ? reason::no_acknowledgement : reason::peer_gone;
    which.sender().process_lost(first, {.why = why, .detail = first});
    home_.ring(which);
  }
  std::erase_if(mine.peers, is_dead);
}

}  // namespace verbena::softdev
