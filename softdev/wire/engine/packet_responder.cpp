// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_responder.hpp"

#include <algorithm>
#include <bit>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/responder_checks.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/engine/sequence.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {
namespace {

/// True for the syndromes of fatal NAKs.
bool is_final(std::uint8_t syndrome) noexcept { return syndrome > syndrome_sequence_error; }

/// Returns whether the payload has the length that the position of the packet requires. In the
/// first packet of a WRITE, also checks the length in the RETH.
bool has_right_length(const packet& what, const packet_role& role, std::uint32_t mtu) noexcept {
  const std::size_t bytes = what.payload.size();
  if (role.begins() && is_write(role.what)) {
    const bool fits = role.ends() ? what.remote.length == bytes : what.remote.length > bytes;
    if (!fits || what.remote.length > limits::max_message_bytes) return false;
  }
  switch (role.place) {
    case place_in_message::only:
      return bytes <= mtu;
    case place_in_message::last:
      return bytes > 0 && bytes <= mtu;
    default:
      return bytes == mtu;
  }
}

}  // namespace

void packet_responder::receive(const packet& what, packet_output& out) noexcept {
  if (!receives(self_.state())) return gap_.kept.clear();
  const std::int32_t ahead = psn_distance(expected_psn_, what.psn);
  if (ahead > 0) return receive_after_gap(what);
  const packet_role role = role_of(what.opcode);
  if (ahead < 0) return repeat(what, role);
  const bool retransmitted = gap_.expected != awaited::nothing;
  gap_.expected = awaited::nothing;
  gap_.report_due = false;
  refusal_ = {};  // a NAK for a gap, or an RNR NAK
  execute(what, role, out);
  if (!gap_.kept.empty()) execute_kept(what.psn, out);
  if (gap_.expected == awaited::nothing) gap_.reported = false;
  if (retransmitted) ack_.alone = false;
}

/// Processes a packet that arrives although an earlier one is missing. With selective repeat, keeps
/// it. Then a report becomes due if the packet reveals a gap, or if it requests an acknowledgement.
void packet_responder::receive_after_gap(const packet& what) noexcept {
  if (gap_.expected == awaited::refused) return;
  const bool is_first = gap_.expected == awaited::nothing;
  const auto added = gap_.selective ? gap_.kept.add(what, {expected_psn_, gap_.reach}, mtu_)
                                    : reorder_queue::added::refused;
  if (is_first) gap_.expected = awaited::missing;
  if (added == reorder_queue::added::refused) {
    if (is_first) refusal_ = {syndrome_sequence_error, expected_psn_};
    return;
  }
  gap_.report_due |= is_first || added == reorder_queue::added::reveals_gap || what.ack_requested;
}

/// Executes the kept packets that follow the packet `executed`. If a packet is not executed, drops
/// all kept packets: the peer sends them again.
void packet_responder::execute_kept(std::uint32_t executed, packet_output& out) noexcept {
  for (std::uint32_t tried = executed; receives(self_.state()) && expected_psn_ != tried;) {
    const packet* const next = gap_.kept.find(expected_psn_);
    if (next == nullptr) return end_gap();
    tried = expected_psn_;
    execute(*next, role_of(next->opcode), out);
  }
  gap_.kept.clear();
}

/// The expected packet is not one of the kept packets.
void packet_responder::end_gap() noexcept {
  gap_.kept.remove_before(expected_psn_);
  if (!gap_.kept.empty()) {
    gap_.expected = awaited::missing;
    gap_.report_due = true;
  }
  // The peer waits for the acknowledgement of the packet that it has retransmitted.
  ack_.due |= gap_.reported;
}

/// Processes a packet of UC. A message with a lost packet is dropped. The next message can begin
/// with any PSN (IBTA 9.8.2.2) and uses the receive request of the dropped message.
void packet_responder::receive_unreliable(const packet& what) noexcept {
  const packet_role role = role_of(what.opcode);
  if (!receives(self_.state()) || !role.is_part) return;
  const bool is_next = in_message_ && what.psn == expected_psn_ && role.what == current_;
  const bool fits = role.begins() || is_next;
  in_message_ = false;
  if (!fits || !has_right_length(what, role, mtu_)) return;
  const response taken = role.begins() ? begin(what, role) : go_on(what, role);
  expected_psn_ = psn_plus(what.psn, 1);
  in_message_ = taken.outcome == verdict::done && !role.ends();
}

message packet_responder::message_of(const packet& what, opcode op) const noexcept {
  message made;
  made.opcode = op;
  made.solicited = what.solicited;
  made.pkey = what.pkey;
  made.transport = self_.transport();
  made.source_qpn = self_.attributes().destination_qpn;
  made.destination_qpn = self_.number();
  made.psn = psn_plus(first_number_, messages_);
  made.immediate = network_order(what.immediate);  // the core keeps it in network order
  made.remote_key = what.remote.key;
  made.remote_address = what.remote.address;
  return made;
}

/// Executes a packet with the expected PSN.
response packet_responder::take(const packet& what, const packet_role& role) noexcept {
  if (role.is_part) {
    const bool fits = role.begins() != in_message_ && (role.begins() || role.what == current_);
    if (!fits || !has_right_length(what, role, mtu_)) return self_.receiver().refuse_packet();
    return role.begins() ? begin(what, role) : go_on(what, role);
  }
  if (in_message_) return self_.receiver().refuse_packet();
  switch (operation_of(what.opcode)) {
    case operation::read_request:
      return execute_read(what);
    case operation::compare_swap:
    case operation::fetch_add:
      return execute_atomic(what);
    default:
      return self_.receiver().refuse_packet();  // an unsupported operation
  }
}

response packet_responder::begin(const packet& what, const packet_role& role) noexcept {
  responder& receiver = self_.receiver();
  message made = message_of(what, role.immediate ? with_immediate(role.what) : role.what);
  made.length =
      is_send(role.what) ? static_cast<std::uint32_t>(what.payload.size()) : what.remote.length;
  const response begun = receiver.begin(made);
  if (begun.outcome != verdict::done) return begun;
  receiver.keep();
  current_ = role.what;
  return finish_packet(what, role);
}

response packet_responder::go_on(const packet& what, const packet_role& role) noexcept {
  responder& receiver = self_.receiver();
  if (!receiver.busy()) return receiver.refuse_packet();
  if (role.immediate) {
    const response taken = receiver.add_immediate(network_order(what.immediate));
    if (taken.outcome != verdict::done) return taken;
  }
  if (what.solicited) receiver.set_solicited();
  if (is_send(current_)) {
    const response fits = receiver.lengthen(static_cast<std::uint32_t>(what.payload.size()));
    if (fits.outcome != verdict::done) return fits;
  }
  return finish_packet(what, role);
}

response packet_responder::finish_packet(const packet& what, const packet_role& role) noexcept {
  response answer = self_.receiver().place(what.payload);
  if (answer.outcome != verdict::done || !role.ends()) return answer;
  answer = self_.receiver().finish();
  if (answer.outcome != verdict::done) return answer;
  // If the completion queue was full, the completion is lost, and the message gets no ACK. If the
  // send side has failed at this moment, the program has the completion: the message gets an ACK.
  if (!receives(self_.state()) && self_.options().receive_queue->overrun())
    return {.outcome = verdict::no_answer};
  finish_message();
  return answer;
}

void packet_responder::finish_message() noexcept { messages_ = psn_plus(messages_, 1); }

/// Returns the number of kept responses: max_dest_rd_atomic, which can change in SQD. It is rounded
/// up to a power of two, because the kernel's rxe rounds the number that it sends (max_rd_atomic)
/// up to one.
std::uint32_t packet_responder::depth() const noexcept {
  return std::bit_ceil(std::max<std::uint32_t>(self_.attributes().max_dest_rd_atomic, 1));
}

/// Returns an entry for the next kept response. Returns nullptr if the oldest of the kept responses
/// has not been sent: the peer exceeds its number of outstanding READs and atomic operations. A
/// response that is due again because of a duplicate request can be replaced.
packet_responder::responder_resource* packet_responder::free_answer() noexcept {
  if (kept_count_ >= depth()) {
    const responder_resource& oldest = kept(kept_count_ - depth());
    if (oldest.due && !oldest.sent) return nullptr;
  }
  return &kept(kept_count_);
}

response packet_responder::execute_read(const packet& what) noexcept {
  responder& receiver = self_.receiver();
  message made = message_of(what, opcode::rdma_read);
  made.length = what.remote.length;
  responder_resource* const entry = free_answer();
  if (entry == nullptr || made.length > limits::max_message_bytes) return receiver.refuse_packet();
  response answer = receiver.begin(made);
  if (answer.outcome != verdict::done) return answer;
  answer = receiver.finish();
  finish_message();
  *entry = {.what = made, .first_psn = what.psn, .msn = messages_, .due = true};
  const std::uint32_t packets = packets_of(made.length, mtu_);
  entry->ranges.add({0, packets, made.length}, packets);
  some_due_ = true;
  ++kept_count_;
  return answer;
}

response packet_responder::execute_atomic(const packet& what) noexcept {
  responder& receiver = self_.receiver();
  message made =
      message_of(what, operation_of(what.opcode) == operation::compare_swap ? opcode::compare_swap
                                                                            : opcode::fetch_add);
  take_operands(what.atomic, made);
  made.length = sizeof(std::uint64_t);
  responder_resource* const entry = free_answer();
  if (entry == nullptr) return receiver.refuse_packet();
  response answer = receiver.begin(made);
  if (answer.outcome == verdict::done) answer = receiver.finish();
  if (answer.outcome != verdict::done) return answer;
  finish_message();
  *entry = {.what = made,
            .first_psn = what.psn,
            .msn = messages_,
            .original = answer.original,
            .due = true};
  some_due_ = true;
  ++kept_count_;
  return answer;
}

void packet_responder::execute(const packet& what, const packet_role& role,
                               packet_output& out) noexcept {
  put_data_before(what, out);
  if (!receives(self_.state())) return;  // an earlier READ was refused
  settle(what, role, take(what, role));
}

void packet_responder::settle(const packet& what, const packet_role& role,
                              const response& answer) noexcept {
  switch (answer.outcome) {
    case verdict::done: {
      const bool is_read = operation_of(what.opcode) == operation::read_request;
      expected_psn_ = psn_plus(expected_psn_, is_read ? packets_of(what.remote.length, mtu_) : 1);
      in_message_ = role.is_part && !role.ends();
      ack_.due |= role.is_part && what.ack_requested;
      note_delivery(role);
      return;
    }
    case verdict::receiver_not_ready:
    case verdict::invalid_request:
    case verdict::access_error:
    case verdict::operation_error:
      refusal_ = {syndrome_of(answer), what.psn};
      // Until the peer retransmits this packet, later packets are ahead of the expected PSN.
      gap_.expected = awaited::refused;
      return;
    default:
      return;  // dropped
  }
}

/// Records whether the ACK that is due is that of a message with a completion.
void packet_responder::note_delivery(const packet_role& role) noexcept {
  const bool completes =
      ack_.due && role.is_part && role.ends() && (role.what == opcode::send || role.immediate);
  ack_.owed |= completes;
  ack_.alone = completes && role.begins();
}

/// Responds to a duplicate request (IBTA 9.7.5.1.1).
void packet_responder::repeat(const packet& what, const packet_role& role) noexcept {
  ack_.alone = false;
  switch (operation_of(what.opcode)) {
    case operation::read_request:
      return repeat_read(what);
    case operation::compare_swap:
    case operation::fetch_add:
      if (responder_resource* const found = find(what.psn);
          found != nullptr && is_atomic(found->what.opcode))
        some_due_ = found->due = true;
      return;
    default:
      ack_.due |= role.is_part;
      return;
  }
}

/// Returns the newest kept response with this PSN. After PSNs have wrapped around, an older READ
/// can have the same PSN.
packet_responder::responder_resource* packet_responder::find(std::uint32_t psn) noexcept {
  const std::uint64_t first = kept_count_ - std::min<std::uint64_t>(kept_count_, depth());
  for (std::uint64_t i = kept_count_; i > first; --i) {
    responder_resource& each = kept(i - 1);
    if (((psn - each.first_psn) & psn_mask) < packets_of(each.what, mtu_)) return &each;
  }
  return nullptr;
}

/// Responds to a duplicate READ. It can request a part of the original response only: after a loss,
/// the missing packets.
void packet_responder::repeat_read(const packet& what) noexcept {
  responder_resource* const found = find(what.psn);
  if (found == nullptr || found->what.opcode != opcode::rdma_read) return;
  const message& first = found->what;
  const std::uint32_t index = (what.psn - found->first_psn) & psn_mask;
  const std::uint64_t offset = std::uint64_t{index} * mtu_;
  if (what.remote.key != first.remote_key || what.remote.address != first.remote_address + offset ||
      what.remote.length > first.length - offset)
    return;
  const response_range asked{index, index + packets_of(what.remote.length, mtu_),
                             static_cast<std::uint32_t>(offset + what.remote.length)};
  found->ranges.add(asked, packets_of(first.length, mtu_));
  some_due_ = found->due = true;
}

/// Returns false if the payload is not accessible.
bool packet_responder::put(packet made, operation kind, packet_output& out) noexcept {
  made.opcode = make_opcode(packet_transport::rc, kind);
  address_to_peer(self_, made);
  return out.put(self_, made);
}

bool packet_responder::put_read(responder_resource& which, packet_output& out) noexcept {
  const std::uint32_t packets = packets_of(which.what, mtu_);
  while (!which.ranges.empty()) {
    if (budget_ == 0 || !out.has_room()) return false;
    --budget_;
    if (!put_read_packet(which, out)) return true;
    which.sent |= which.ranges.next() + 1 == packets;
    which.ranges.step();
  }
  which.due = false;
  return true;
}

/// Sends the next packet of a READ response. Returns false if the READ is refused.
bool packet_responder::put_read_packet(responder_resource& which, packet_output& out) noexcept {
  const response_range& range = which.ranges.current();
  const std::uint32_t next = which.ranges.next();
  const std::uint64_t offset = std::uint64_t{next} * mtu_;
  const std::uint64_t bytes = std::min<std::uint64_t>(mtu_, range.end_bytes - offset);
  segment source{nullptr, 0};
  response answer = self_.receiver().read_again(which.what, offset, bytes, source);
  payload_reader data({&source, 1});
  packet made;
  made.psn = psn_plus(which.first_psn, next);
  made.answer = {syndrome_ack, which.msn};
  if (answer.outcome == verdict::done) {
    made.payload = data.view(bytes);
    const operation kind = read_response_operation(next - range.begin, range.end - range.begin);
    if (made.payload.size() != bytes || !put(made, kind, out))
      answer = responder::unmapped(which.what, offset, bytes);
  }
  if (answer.outcome == verdict::done) return true;
  refuse_read(which, made.psn, answer, out);
  return false;
}

/// Handles a READ whose memory is not accessible. If the end of the response was sent before, the
/// request can be a late duplicate: the peer has the data, and the program may have deregistered
/// the memory. In this case, the queue pair remains usable. The peer ignores the NAK unless it lost
/// the response.
void packet_responder::refuse_read(responder_resource& which, std::uint32_t psn,
                                   const response& why, packet_output& out) noexcept {
  if (which.sent) {
    put({.psn = psn, .answer = {syndrome_of(why), which.msn}}, operation::acknowledge, out);
    which.due = false;
    which.ranges.clear();
    return;
  }
  self_.receiver().refuse_finished(why);
  refusal_ = {syndrome_of(why), psn};
  for (responder_resource& each : responder_resources_) each.due = false;
}

bool packet_responder::put_kept(packet_output& out) noexcept {
  if (!some_due_) return true;
  for (std::uint32_t i = 0; i < responder_resources_.size(); ++i) {
    responder_resource& each = kept(kept_count_ + i);
    if (!each.due) continue;
    if (each.what.opcode == opcode::rdma_read) {
      if (!put_read(each, out)) return false;
      continue;
    }
    if (!out.has_room()) return false;
    put({.psn = each.first_psn, .answer = {syndrome_ack, each.msn}, .original = each.original},
        operation::atomic_acknowledge, out);
    each.due = false;
    each.sent = true;
  }
  some_due_ = false;
  return true;
}

/// Sends the READ responses that are due if `what` can change their memory.
void packet_responder::put_data_before(const packet& what, packet_output& out) noexcept {
  const operation kind = operation_of(what.opcode);
  const bool changes = role_of(what.opcode).is_part || kind == operation::compare_swap ||
                       kind == operation::fetch_add;
  if (!changes || !receives(self_.state())) return;
  static_cast<void>(put_kept(out));
}

void packet_responder::use_selective_repeat(std::uint32_t expected) noexcept {
  const std::int32_t past = psn_distance(expected, expected_psn_);
  gap_.selective |= past >= 0 && past < static_cast<std::int32_t>(base_reach);
}

void packet_responder::use_larger_window(std::uint32_t expected) noexcept {
  const std::int32_t past = psn_distance(expected, expected_psn_);
  if (past < 0 || past > static_cast<std::int32_t>(psn_set::capacity)) return;
  gap_.selective = gap_.grant_due = true;
  gap_.reach = psn_set::capacity;
}

/// Sends the grant of a larger window if it is due. Returns false if there is no room.
bool packet_responder::put_grant(packet_output& out) noexcept {
  if (!gap_.grant_due) return true;
  if (!out.has_room()) return false;
  selective_payload payload;
  packet made = make_window_grant(expected_psn_, gap_.reach, payload);
  address_to_peer(self_, made);
  static_cast<void>(out.put(self_, made));
  gap_.grant_due = false;
  return true;
}

bool packet_responder::can_postpone() const noexcept {
  // The peer often has the same timeout: it must not take the ACK for lost.
  constexpr std::uint8_t least_timeout = 12;  // 16.8 ms
  return ack_.alone && psn_distance(ack_.last_msn, messages_) == 1 && refusal_.syndrome == 0 &&
         !some_due_ && gap_.expected == awaited::nothing &&
         self_.state() == queue_pair_state::rts && self_.attributes().timeout >= least_timeout;
}

/// Returns true if the program has moved the queue pair to ERR or destroys it there.
bool packet_responder::is_stopped() const noexcept {
  return !receives(self_.state()) && !is_final(refusal_.syndrome);
}

/// If a refused request has moved the queue pair to ERR, sends the responses to earlier requests,
/// then the NAK. If the program has, only put_last_answer() applies.
bool packet_responder::put_answers(packet_output& out) noexcept {
  budget_ = read_packets_per_call;
  if (is_stopped()) return put_last_answer(out);
  if (!receives(self_.state())) gap_.kept.clear();  // other connections need the buffer
  return put_grant(out) && put_kept(out) && put_status(out);
}

bool packet_responder::put_last_answer(packet_output& out) noexcept {
  if (is_stopped()) {
    gap_.kept.clear();
    refusal_ = {};
    if (!ack_.owed) return true;
  }
  return some_due_ || put_status(out);
}

/// Sends the ACK, NAK or selective acknowledgement that is due. Returns false if there is no room.
bool packet_responder::put_status(packet_output& out) noexcept {
  const bool refused = refusal_.syndrome != 0;
  const bool reports =
      gap_.expected == awaited::missing && !gap_.kept.empty() && (gap_.report_due || ack_.due);
  if (!refused && !reports && !ack_.due) return true;
  if (!out.has_room()) return false;
  if (refused)
    put({.psn = refusal_.psn, .answer = {refusal_.syndrome, messages_}}, operation::acknowledge,
        out);
  else if (reports)
    put_report(out);
  else
    put({.psn = psn_plus(expected_psn_, psn_mask), .answer = {syndrome_ack, messages_}},
        operation::acknowledge, out);
  refusal_ = {};
  ack_ = {.last_msn = messages_};
  gap_.report_due = false;
  return true;
}

/// Sends a selective acknowledgement.
void packet_responder::put_report(packet_output& out) noexcept {
  selective_payload payload;
  packet made =
      make_selective_acknowledgement(gap_.kept.received(expected_psn_), gap_.reach, payload);
  address_to_peer(self_, made);
  static_cast<void>(out.put(self_, made));
  out.count(packet_event::selective_ack_sent);
  gap_.reported = true;
}

}  // namespace verbena::softdev::wire
