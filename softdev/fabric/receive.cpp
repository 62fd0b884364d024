// SPDX-License-Identifier: MIT
#include "softdev/fabric/receive.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/group.hpp"
#include "softdev/fabric/records.hpp"
#include "softdev/fabric/send_reference.hpp"

namespace verbena::softdev {
namespace {

using namespace records;

bool comes_from(const peer& from, std::uint32_t qpn) noexcept {
  return slot_of_number(qpn) == from.slot();
}

/// Returns whether the fragment is the next part of the current message.
bool continues(const responder& receiver, const fragment_header& header) noexcept {
  if (!receiver.busy()) return false;
  const message& current = receiver.current();
  return current.source_qpn == header.source_qpn && current.psn == header.psn &&
         current.attempt == header.attempt && receiver.placed() == header.offset;
}

/// Returns the message of a fragment, as far as its answer needs it.
message request_of_rest(const fragment_header& header) noexcept {
  message what;
  what.transport = transport::rc;
  what.attempt = static_cast<std::uint16_t>(header.attempt);
  what.source_qpn = header.source_qpn;
  what.destination_qpn = header.destination_qpn;
  what.psn = header.psn;
  return what;
}

request_id request_of(const fragment_header& header) noexcept {
  return {header.source_qpn, header.psn, static_cast<std::uint16_t>(header.attempt)};
}

}  // namespace

handled record_receiver::keep() noexcept {
  state_.set_needs_progress();
  return handled::keep;
}

handled record_receiver::drop() noexcept {
  state_.note_dropped();
  return handled::consumed;
}

handled record_receiver::operator()(peer& from, const ring_record& record) noexcept {
  std::uint32_t first = 0;
  if (record.payload.size() >= sizeof first)
    std::memcpy(&first, record.payload.data(), sizeof first);
  mixed_ = first != last_;
  last_ = first;
  if (record.type == type::request && shorts_.receive(from, record.payload))
    return handled::consumed;
  shorts_.end();
  switch (record.type) {
    case type::request:
      return receive_request(from, record.payload);
    case type::fragment:
      return receive_fragment(from, record.payload);
    case type::answer:
      return receive_answer(from, record.payload);
    case type::data:
      return receive_data(from, record.payload);
    case type::reference:
      return pulls_.receive(from, record.payload);
    default:
      return handled::broken;
  }
}

handled record_receiver::receive_request(peer& from, std::span<const std::byte> bytes) noexcept {
  message what;
  if (!take_request(bytes, what) || !comes_from(from, what.source_qpn)) return handled::broken;
  const bool acknowledged = rules_of(what.transport).acknowledged;
  if (acknowledged && !endpoint_state::room_for_answer(from)) return handled::keep;
  queue_pair* target = state_.home.find(what.destination_qpn);
  const auto silence = [&](reason why, std::uint32_t extra) {
    if (!acknowledged)
      (target != nullptr ? target->diagnosis().drops : state_.home.drops())
          .note({.why = why, .detail = what.destination_qpn, .extra = extra});
    state_.answer(from, what,
                  {.outcome = verdict::no_answer,
                   .why = {.why = why, .detail = what.destination_qpn, .extra = extra}});
    return handled::consumed;
  };
  if (target == nullptr) {
    if (is_for_group(what)) return receive_for_group(from, what, bytes);
    return silence(reason::peer_unknown, 0);
  }
  const auto lock = try_for_a_while(target->receive_lock());
  if (!lock) return keep();
  const connection* by = state_.connection_of(*target);
  if (rules_of(target->transport()).connected) {
    if (by == nullptr || by->to.get() != &from)
      return silence(reason::peer_not_ready, static_cast<std::uint32_t>(target->state()));
    if (by->precedes())
      return silence(reason::peer_not_ready, static_cast<std::uint32_t>(queue_pair_state::init));
    if (by->answer.waits) return keep();
  } else if (rules_of(what.transport).mode == delivery_mode::parts) {
    parts_.receive(*target, from, what, bytes);
    return handled::consumed;
  }
  begin_request(*target, from, what, bytes);
  return handled::consumed;
}

void record_receiver::begin_request(queue_pair& target, peer& from, const message& what,
                                    std::span<const std::byte> payload) noexcept {
  responder& receiver = target.receiver();
  const response outcome = receiver.begin(what);
  if (outcome.outcome != verdict::done) return state_.answer(from, what, outcome);
  if (is_atomic(what.opcode)) return state_.answer(from, what, receiver.finish());
  if (what.opcode == opcode::rdma_read)
    reads_.begin(target);
  else
    go_on(target, from, payload);
  receiver.keep();
}

/// Places the next part of the current message; the last part ends it. The acknowledgement must be
/// due before a program can see the completion; otherwise the program's reply could be sent first.
void record_receiver::go_on(queue_pair& target, peer& from,
                            std::span<const std::byte> payload) noexcept {
  responder& receiver = target.receiver();
  const message& what = receiver.current();
  response outcome = receiver.place(payload);
  if (outcome.outcome == verdict::done) {
    if (receiver.placed() < what.length) return;
    if (rules_of(what.transport).acknowledged)
      state_.successes.add(state_.connection_of(target)->to, what);
    outcome = receiver.finish();
  }
  if (outcome.outcome != verdict::done) state_.answer(from, what, outcome);
}

/// Delivers a datagram to the members in this process, in the order of their numbers. If a member
/// is locked, keeps the record, and later continues after the last member that received it.
handled record_receiver::receive_for_group(peer& from, message& what,
                                           std::span<const std::byte> bytes) noexcept {
  const bool whole = what.length >= grh_bytes && bytes.size() == what.length &&
                     what.length <= grh_bytes + limits::max_datagram_bytes;
  if (!whole || !what.origin.has_grh) return handled::broken;
  what.destination_lid = state_.home.port().lid();
  const auto members = state_.home.groups().members(group_of(bytes));
  for (auto next = std::ranges::upper_bound(members, from.last_receiver); next != members.end();
       ++next) {
    queue_pair* target = state_.home.find(*next);
    if (target == nullptr) continue;
    const std::unique_lock lock(target->receive_lock(), std::try_to_lock);
    if (!lock) return keep();
    from.last_receiver = *next;
    what.destination_qpn = *next;
    begin_request(*target, from, what, bytes);
  }
  from.last_receiver = 0;
  return handled::consumed;
}

handled record_receiver::receive_fragment(peer& from, std::span<const std::byte> bytes) noexcept {
  const auto header = take<fragment_header>(bytes);
  if (!header || !comes_from(from, header->source_qpn) || bytes.empty()) return handled::broken;
  if (!endpoint_state::room_for_answer(from)) return handled::keep;
  queue_pair* target = state_.home.find(header->destination_qpn);
  if (target == nullptr) return refuse_rest(from, *header, {.why = reason::peer_unknown});
  const auto lock = try_for_a_while(target->receive_lock());
  if (!lock) return keep();
  const transport_rules& rules = rules_of(target->transport());
  if (rules.mode == delivery_mode::parts) return drop();  // its requests have no fragments
  const connection* by = state_.connection_of(*target);
  // The process of a queue pair without a connection is guarded by its send lock.
  const bool comes_here =
      !rules.connected || (by != nullptr && by->to.get() == &from && !by->answer.waits);
  if (comes_here && continues(target->receiver(), *header)) {
    go_on(*target, from, bytes);
    return handled::consumed;
  }
  if (!rules.acknowledged) return drop();
  return refuse_rest(
      from, *header,
      {.why = reason::peer_not_ready, .extra = static_cast<std::uint32_t>(target->state())});
}

/// Handles a fragment of a message that is not received. If the message was refused, its requester
/// ignores the answer. Otherwise the queue pair was reset, destroyed or has failed since the
/// message began: without the answer, the requester would take an answer to a later request for the
/// acknowledgement of this one, or would wait forever.
handled record_receiver::refuse_rest(peer& from, const fragment_header& header,
                                     failure why) noexcept {
  why.detail = header.destination_qpn;
  state_.answer(from, request_of_rest(header), {.outcome = verdict::no_answer, .why = why});
  return drop();
}

handled record_receiver::receive_answer(peer& from, std::span<const std::byte> bytes) noexcept {
  const auto taken = take_answer(bytes);
  if (!taken || !comes_from(from, taken->to.source_qpn)) return handled::broken;
  queue_pair* asked = state_.home.find(taken->to.destination_qpn);
  if (asked == nullptr) return drop();
  const auto lock = try_for_a_while(asked->send_lock());
  if (!lock) return keep();
  connection* by = state_.connection_of(*asked);
  if (by == nullptr || (by->to != nullptr && by->to.get() != &from)) return drop();
  const bool unread = taken->what.outcome == verdict::unread;
  if (unread && by->references.sent == 0) return drop();
  if (!asked->sender().answer(request_of(taken->to), taken->what)) return drop();
  if (unread) reference_sender::note_refusal(*by);
  // After a failure, later requests in flight also end, or are sent again.
  if (taken->what.outcome != verdict::done) by->sent.partly = by->read.waits = false;
  if (by->read.waits && by->read.psn == taken->to.psn) by->read.waits = false;
  asked->sender().run();
  return handled::consumed;
}

handled record_receiver::receive_data(peer& from, std::span<const std::byte> bytes) noexcept {
  const auto header = take<fragment_header>(bytes);
  if (!header || !comes_from(from, header->source_qpn)) return handled::broken;
  queue_pair* asked = state_.home.find(header->destination_qpn);
  if (asked == nullptr) return drop();
  const auto lock = try_for_a_while(asked->send_lock());
  if (!lock) return keep();
  const connection* by = state_.connection_of(*asked);
  if (by == nullptr || (by->to != nullptr && by->to.get() != &from)) return drop();
  if (!asked->sender().place(request_of(*header), header->offset, bytes)) return drop();
  return handled::consumed;
}

}  // namespace verbena::softdev
