// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_requester.hpp"

#include <algorithm>

#include "softdev/core/attributes.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/engine/selective_packets.hpp"
#include "softdev/wire/engine/sequence.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {
namespace {

/// Within a message, one packet in this number requests an acknowledgement.
constexpr std::uint32_t acknowledgement_interval = 16;
/// Limits of retransmissions before the ACK timeout: their number, the number of doublings of the
/// early timeout, and its minimum. Each early retransmission doubles the early timeout.
constexpr std::uint8_t max_early_retransmits = 4;
constexpr std::uint8_t most_backoff = 10;
constexpr time_ns least_early_timeout = 200'000;
/// The number of offers of selective repeat. Some are lost; most peers do not support it.
constexpr std::uint8_t max_offers = 8;
constexpr std::uint8_t syndrome_kind_mask = 0xe0;
constexpr std::uint8_t rnr_timer_mask = 0x1f;

bool is_acknowledgement(std::uint8_t syndrome) noexcept {
  return (syndrome & syndrome_kind_mask) == 0;
}

verdict verdict_of(std::uint8_t syndrome) noexcept {
  switch (syndrome) {
    case syndrome_access_error:
      return verdict::access_error;
    case syndrome_operation_error:
      return verdict::operation_error;
    default:
      return verdict::invalid_request;
  }
}

packet packet_of(const message& what) noexcept {
  packet made;
  made.pkey = what.pkey;
  made.destination_qpn = what.destination_qpn;
  return made;
}

/// Returns whether a response packet has the opcode, length and syndrome that its position in the
/// READ requires.
bool fits_read(const packet& what, std::uint32_t index, std::uint32_t packets, std::uint32_t length,
               std::uint32_t mtu) noexcept {
  const operation kind = operation_of(what.opcode);
  const bool ends = kind == operation::read_response_last || kind == operation::read_response_only;
  const bool is_last = index + 1 == packets;
  const std::uint32_t bytes = is_last ? length - index * mtu : mtu;
  const bool has_syndrome = kind != operation::read_response_middle;
  return ends == is_last && what.payload.size() == bytes &&
         (!has_syndrome || is_acknowledgement(what.answer.syndrome));
}

}  // namespace

packet_requester::packet_requester(queue_pair& self, std::uint32_t mtu, packet_output& out,
                                   bool selective) noexcept
    : self_(self), out_(out), mtu_(mtu), acknowledged_(rules_of(self.transport()).acknowledged) {
  recovery_.offers_left = selective ? max_offers : 0;
}

/// Returns the first unacknowledged PSN.
std::uint32_t packet_requester::oldest_psn() noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    const sent_request& each = at(i);
    if (!each.complete()) return psn_plus(each.first_psn, each.acknowledged);
  }
  return next_psn_;
}

/// Returns how many packets, beginning with `psn`, the congestion window permits.
std::uint32_t packet_requester::room_from(std::uint32_t psn) noexcept {
  if (!acknowledged_) return psn_mask;
  const auto room =
      static_cast<std::int32_t>(flow_.congestion.packets()) - psn_distance(oldest_psn(), psn);
  return static_cast<std::uint32_t>(std::max(room, 0));
}

bool packet_requester::may_put() noexcept {
  flow_.waits_for_room = !out_.has_room();
  return !flow_.waits_for_room;
}

void packet_requester::pop() noexcept {
  begin_ = (begin_ + 1) % window;
  --count_;
  --live_;
}

void packet_requester::note_sent(std::uint32_t end_psn) noexcept {
  if (psn_distance(sent_end_, end_psn) > 0) {
    sent_end_ = end_psn;
    if (acknowledged_ && timer_.usual.started == never) {
      timer_.usual.started = self_.home().now();
      timer_.usual.end_psn = end_psn;
    }
  }
  start_timer();
}

/// Adds a sample as TCP does (RFC 6298), and ends the exponential backoff.
void packet_requester::round_trip::add(time_ns sample) noexcept {
  backoff = 0;
  if (smoothed == 0) {
    smoothed = sample;
    deviation = sample / 2;
    return;
  }
  const time_ns apart = sample > smoothed ? sample - smoothed : smoothed - sample;
  deviation = (3 * deviation + apart) / 4;
  smoothed = (7 * smoothed + sample) / 8;
}

void packet_requester::measure_answer() noexcept {
  if (timer_.usual.started == never || psn_distance(timer_.usual.end_psn, oldest_psn()) < 0) return;
  timer_.usual.add(std::max<time_ns>(self_.home().now() - timer_.usual.started, 1));
  timer_.usual.started = never;
}

/// Returns the early timeout. A retransmission before the program's ACK timeout recovers sooner
/// from a loss that no later packet reveals: that of the last packet of a message, or of a NAK.
/// Returns `never` if the round-trip time is unknown or if the maximum number of early
/// retransmissions is reached.
time_ns packet_requester::rtt_timeout() const noexcept {
  if (timer_.usual.smoothed == 0 || recovery_.since_progress.early >= max_early_retransmits)
    return never;
  const time_ns usual = timer_.usual.smoothed + 4 * timer_.usual.deviation;
  return std::max(usual, least_early_timeout) << timer_.usual.backoff;
}

void packet_requester::start_timer() noexcept {
  const std::uint8_t code = acknowledged_ ? self_.attributes().timeout : std::uint8_t{0};
  if (timer_.deadline != never || code == 0) return;
  const time_ns timeout = acknowledgement_timeout(code);
  const time_ns early = rtt_timeout();
  timer_.is_early = early < timeout;
  timer_.deadline = self_.home().now() + std::min(early, timeout);
}

response packet_requester::submit(const message& what, std::span<const segment> local) noexcept {
  flow_.waits_for_room = false;
  if (!begun_) {
    begun_ = true;
    next_psn_ = sent_end_ = flow_.ack_req_end = what.psn;
  }
  if (!acknowledged_) return submit_unreliable(what, local);
  const std::uint32_t index = count_ == 0 ? 0 : (what.psn - at(0).number) & psn_mask;
  VERBENA_ASSERT(index <= count_, "requests are submitted in the order of their numbers");
  if (index == count_) {
    if (count_ == window || room_from(next_psn_) == 0 || !may_put())
      return {.outcome = verdict::blocked};
    const std::uint32_t packets = packets_of(what, mtu_);
    at(count_++) = {.number = what.psn,
                    .first_psn = next_psn_,
                    .packets = packets,
                    .length = what.length,
                    .opcode = what.opcode};
    next_psn_ = psn_plus(next_psn_, packets);
  }
  sent_request& which = at(index);
  if (index >= live_) {
    live_ = index + 1;
    which.attempt = what.attempt;
    which.sent = which.acknowledged;
  }
  // The response arrived while the request waited for its retransmission.
  if (which.complete()) {
    pop();
    return {};
  }
  if (is_refused(which)) return refusal();
  if (!is_read_or_atomic(what.opcode)) return put_packets(which, what, local);
  if (room_from(psn_plus(which.first_psn, which.acknowledged)) == 0 || !may_put())
    return {.outcome = verdict::partial};
  put_read_or_atomic(which, what);
  return {.outcome = verdict::pending};
}

/// Over UC, a message is done when all of its packets have been sent. The ring contains only the
/// message whose packets wait for room.
response packet_requester::submit_unreliable(const message& what,
                                             std::span<const segment> local) noexcept {
  if (live_ != 0 && at(0).number != what.psn) pop();  // the requester has abandoned this request
  if (live_ == 0) {
    if (!may_put()) return {.outcome = verdict::blocked};
    const std::uint32_t packets = packets_of(what, mtu_);
    at(0) = {.number = what.psn,
             .first_psn = next_psn_,
             .packets = packets,
             .length = what.length,
             .opcode = what.opcode};
    count_ = live_ = 1;
    next_psn_ = psn_plus(next_psn_, packets);
  }
  const response put = put_packets(at(0), what, local);
  if (put.outcome == verdict::partial) return put;
  pop();
  return put.outcome == verdict::pending ? response{} : put;
}

/// Returns false if the payload is not accessible.
bool packet_requester::put(const packet& made) noexcept {
  if (psn_distance(made.psn, sent_end_) > 0) {
    out_.count(packet_event::retransmitted);
    recovery_.resends.note_sent(made.psn);
  }
  return out_.put(self_, made);
}

/// Sends the packets of a SEND or WRITE from index `sent` on, as far as the window and the output
/// permit.
response packet_requester::put_packets(sent_request& which, const message& what,
                                       std::span<const segment> local) noexcept {
  which.sent = std::max(which.sent, which.acknowledged);
  payload_reader payload(local, std::uint64_t{which.sent} * mtu_);
  packet made = packet_of(what);
  made.remote = {what.remote_address, what.remote_key, what.length};
  made.immediate = network_order(what.immediate);  // the core keeps it in network order
  const std::uint32_t oldest = oldest_psn();
  std::uint32_t room = room_from(psn_plus(which.first_psn, which.sent));
  // The window has shrunk, and no packet in flight requests an acknowledgement: this packet does.
  if (room == 0 && psn_distance(oldest, flow_.ack_req_end) <= 0) room = 1;
  while (which.sent < which.packets) {
    if (room == 0 || !may_put()) return {.outcome = verdict::partial};
    --room;
    const std::uint32_t psn = psn_plus(which.first_psn, which.sent);
    const bool last = which.sent + 1 == which.packets;
    const std::uint32_t bytes = last ? what.length - which.sent * mtu_ : mtu_;
    made.opcode = make_opcode(acknowledged_ ? packet_transport::rc : packet_transport::uc,
                              request_operation(what.opcode, which.sent, which.packets));
    made.psn = psn;
    made.solicited = last && what.solicited;
    made.ack_requested =
        acknowledged_ && (last || (which.sent + 1) % acknowledgement_interval == 0);
    if (skips(psn)) {
      payload.skip(bytes);
    } else {
      made.ack_requested |= acknowledged_ && (recovery_.resends.repeats(psn, sent_end_) ||
                                              (room == 0 && must_request_ack(oldest, psn)));
      made.payload = payload.view(bytes);
      if (made.payload.size() != bytes || !put(made)) return local_fault(payload.piece());
    }
    if (made.ack_requested) flow_.ack_req_end = psn_plus(psn, 1);
    ++which.sent;
    note_sent(psn_plus(psn, 1));
  }
  return {.outcome = verdict::pending};
}

/// Returns whether the packet that fills the window requests an acknowledgement. It does if no
/// packet in flight does, or if half of the window was sent since the last one that does. More
/// requests would result in shorter trains (packet_sender).
bool packet_requester::must_request_ack(std::uint32_t oldest, std::uint32_t psn) const noexcept {
  return psn_distance(oldest, flow_.ack_req_end) <= 0 ||
         psn_distance(flow_.ack_req_end, psn) >=
             static_cast<std::int32_t>(flow_.congestion.packets() / 2);
}

/// Sends the packet of a READ or atomic operation. A retransmitted READ requests only the missing
/// bytes.
void packet_requester::put_read_or_atomic(sent_request& which, const message& what) noexcept {
  packet made = packet_of(what);
  made.psn = psn_plus(which.first_psn, which.acknowledged);
  made.ack_requested = true;
  made.opcode = make_opcode(packet_transport::rc, request_operation(what.opcode));
  if (what.opcode == opcode::rdma_read) {
    const std::uint32_t received = which.acknowledged * mtu_;
    made.remote = {what.remote_address + received, what.remote_key, what.length - received};
  } else {
    made.atomic = operands_of(what);
  }
  if (!skips(made.psn)) static_cast<void>(put(made));  // the packet has no payload
  which.sent = which.packets;
  flow_.ack_req_end = psn_plus(which.first_psn, which.packets);
  note_sent(flow_.ack_req_end);
}

void packet_requester::receive(const packet& what) noexcept {
  // Ignores PSNs that were not sent or are already acknowledged.
  const std::uint32_t oldest = oldest_psn();
  if (count_ == 0 || psn_distance(oldest, what.psn) < 0 || psn_distance(sent_end_, what.psn) >= 0)
    return;
  if (what.opcode == packet_opcode::selective_acknowledgement) return receive_selective(what);
  switch (operation_of(what.opcode)) {
    case operation::acknowledge:
      if (is_acknowledgement(what.answer.syndrome))
        receive_acknowledgement(what);
      else
        receive_nak(what);
      break;
    case operation::atomic_acknowledge:
      receive_original(what);
      break;
    default:
      receive_data(what);
      break;
  }
}

/// Resets loss recovery and the timer, because further packets were acknowledged.
void packet_requester::note_progress() noexcept {
  recovery_.since_progress = {};
  timer_.deadline = never;
  measure_answer();
  flow_.congestion.acknowledge(oldest_psn(), sent_end_);
  recovery_.resends.note_acknowledged(oldest_psn());
  // If packets of the oldest request wait for room, no later request is in flight.
  if (live_ > 0 && at(0).sent > at(0).acknowledged) start_timer();
}

void packet_requester::answer(const sent_request& which, const response& what) noexcept {
  static_cast<void>(self_.sender().answer(
      {self_.attributes().destination_qpn, which.number, which.attempt}, what));
}

/// Acknowledges the packets before `end_psn`. Returns false if the response to an earlier READ or
/// atomic operation was lost.
bool packet_requester::acknowledge_before(std::uint32_t end_psn) noexcept {
  sent_request last;
  bool some = false;
  bool lost = false;
  bool progress = false;
  for (std::uint32_t i = 0; i < count_;) {
    sent_request& each = at(i);
    const std::int32_t ahead = psn_distance(each.first_psn, end_psn);
    if (ahead <= 0) break;
    const std::uint32_t covered = std::min(static_cast<std::uint32_t>(ahead), each.packets);
    lost = is_read_or_atomic(each.opcode) && each.acknowledged < covered;
    if (lost) break;
    progress |= each.acknowledged < covered;
    each.acknowledged = std::max(each.acknowledged, covered);
    if (!each.complete()) break;
    if (i < live_ && each.sent == each.packets) {
      last = each;
      some = true;
      pop();
    } else {
      ++i;  // completes when the requester submits the request again
    }
  }
  if (progress) note_progress();
  if (some) answer(last, {});
  return !lost;
}

void packet_requester::receive_acknowledgement(const packet& what) noexcept {
  if (!acknowledge_before(psn_plus(what.psn, 1))) repair();
}

/// Processes a NAK, which acknowledges all earlier packets.
void packet_requester::receive_nak(const packet& what) noexcept {
  const std::uint8_t syndrome = what.answer.syndrome;
  const bool not_ready = (syndrome & syndrome_kind_mask) == syndrome_rnr_nak;
  if (!not_ready && syndrome != syndrome_sequence_error) {
    refused_ = {syndrome, what.psn};
    return apply_fatal_nak();
  }
  if (!not_ready) offer_selective_repeat();
  if (!acknowledge_before(what.psn) || !not_ready) return repair();
  if (what.psn != oldest_psn() || !has_outstanding()) return;
  recovery_.since_progress.retries = 0;
  recovery_.resends.select_all();
  end_oldest(
      {.outcome = verdict::receiver_not_ready,
       .rnr_timer = static_cast<std::uint8_t>(syndrome & rnr_timer_mask),
       .why = {.why = reason::receiver_not_ready, .key = self_.attributes().destination_qpn}});
}

/// Processes a selective acknowledgement. It acknowledges the packets before its PSN.
void packet_requester::receive_selective(const packet& what) noexcept {
  recovery_.offers_left = 0;
  recovery_.peer_is_selective = true;
  if (!acknowledge_before(what.psn)) return repair();
  recovery_.resends.limit_to_missing(received_packets(what));
  if (has_outstanding() && has_missing()) end_oldest({.outcome = verdict::unread});
}

/// Returns whether packets in flight must be sent again.
bool packet_requester::has_missing() noexcept {
  for (std::uint32_t i = 0; i < live_; ++i) {
    const sent_request& each = at(i);
    const bool is_one = is_read_or_atomic(each.opcode);
    const std::uint32_t end = is_one ? each.acknowledged + 1 : each.sent;
    for (std::uint32_t k = each.acknowledged; k < end; ++k) {
      const std::uint32_t psn = psn_plus(each.first_psn, k);
      if (psn_distance(psn, sent_end_) > 0 && recovery_.resends.sends(psn)) return true;
    }
  }
  return false;
}

/// Offers selective repeat to the peer. A peer that does not support it ignores the packet.
void packet_requester::offer_selective_repeat() noexcept {
  if (recovery_.offers_left == 0 || !out_.has_room()) return;
  --recovery_.offers_left;
  selective_payload payload;
  packet made = make_selective_offer(payload);
  made.pkey = self_.home().port().pkey(self_.attributes().pkey_index);
  made.destination_qpn = self_.attributes().destination_qpn;
  static_cast<void>(out_.put(self_, made));
}

/// Fails the request that the responder refused with a fatal NAK, after all earlier requests are
/// done. If the requester does not have the request in flight, `submit` fails it.
void packet_requester::apply_fatal_nak() noexcept {
  const bool whole = acknowledge_before(refused_.psn);
  if (!is_refused(at(0))) {
    if (!whole) repair();
    return;
  }
  if (live_ > 0) end_oldest(refusal());
}

bool packet_requester::is_refused(const sent_request& which) const noexcept {
  return refused_.syndrome != 0 && ((refused_.psn - which.first_psn) & psn_mask) < which.packets;
}

response packet_requester::refusal() const noexcept {
  return {.outcome = verdict_of(refused_.syndrome),
          .why = {.why = reason::peer_refused,
                  .detail = self_.attributes().destination_qpn,
                  .extra = refused_.syndrome}};
}

/// Reports the result of the oldest request to the requester. If the result is a retry, the
/// requester submits all requests in flight again.
void packet_requester::end_oldest(const response& what) noexcept {
  live_ = 0;
  flow_.ack_req_end = oldest_psn();
  timer_.deadline = never;
  timer_.usual.started = never;  // the ACK of a retransmission is not measured
  answer(at(0), what);
}

/// Fails the oldest request because its response is invalid.
void packet_requester::end_badly_answered(const packet& what) noexcept {
  constexpr verdict bad_answer = verdict::pending;  // see status_of
  end_oldest({.outcome = bad_answer,
              .why = {.why = reason::bad_request,
                      .detail = self_.attributes().destination_qpn,
                      .extra = what.psn}});
}

/// Returns the READ or atomic operation in flight to which `what` is a response, after the earlier
/// packets have been acknowledged. Returns nullptr if there is none, or if an earlier response was
/// lost.
packet_requester::sent_request* packet_requester::find_answered(const packet& what) noexcept {
  for (std::uint32_t i = 0; i < live_; ++i) {
    const sent_request& each = at(i);
    const std::int32_t index = psn_distance(each.first_psn, what.psn);
    if (index < 0 || index >= static_cast<std::int32_t>(each.packets)) continue;
    if (!is_read_or_atomic(each.opcode) || each.sent < each.packets) return nullptr;
    if (acknowledge_before(each.first_psn)) return &at(0);
    repair();
    return nullptr;
  }
  return nullptr;
}

/// Processes a packet of a READ response. The PSN alone identifies it: packets of the first
/// response can arrive after the READ was retransmitted, and they contain the same data.
void packet_requester::receive_data(const packet& what) noexcept {
  sent_request* const which = find_answered(what);
  if (which == nullptr) return;
  const std::uint32_t index = (what.psn - which->first_psn) & psn_mask;
  if (which->opcode != opcode::rdma_read || index < which->acknowledged) return;
  if (index > which->acknowledged) return repair();
  const request_id id{self_.attributes().destination_qpn, which->number, which->attempt};
  if (!fits_read(what, index, which->packets, which->length, mtu_)) return end_badly_answered(what);
  if (!self_.sender().place(id, std::uint64_t{index} * mtu_, what.payload)) return;
  if (++which->acknowledged < which->packets) return note_progress();
  end_answered({});
}

void packet_requester::receive_original(const packet& what) noexcept {
  const sent_request* const which = find_answered(what);
  if (which == nullptr || !is_atomic(which->opcode)) return;
  if (!is_acknowledgement(what.answer.syndrome)) return end_badly_answered(what);
  end_answered({.original = what.original});
}

/// Completes the oldest request, a READ or an atomic operation.
void packet_requester::end_answered(const response& what) noexcept {
  const sent_request done = at(0);
  pop();
  note_progress();
  answer(done, what);
  if (refused_.syndrome != 0 && count_ > 0) apply_fatal_nak();
}

/// Retransmits after a loss. Ignores further signs of loss until the retransmission is
/// acknowledged.
void packet_requester::repair() noexcept {
  if (!recovery_.since_progress.repairing) go_back();
}

void packet_requester::expire() noexcept {
  if (timer_.deadline == never || self_.home().now() < timer_.deadline) return;
  timer_.deadline = never;
  if (!has_outstanding()) return;
  if (timer_.is_early) {
    ++recovery_.since_progress.early;
    if (timer_.usual.backoff < most_backoff) ++timer_.usual.backoff;
    return retransmit_early();
  }
  out_.count(packet_event::timed_out);
  go_back();
}

/// Retransmits before the ACK timeout. With selective repeat, first sends again only packets that
/// were reported missing, or the last packet: its acknowledgement reports which packets are missing
/// (a tail loss probe, RFC 8985).
void packet_requester::retransmit_early() noexcept {
  retransmission& resends = recovery_.resends;
  const bool is_first = recovery_.since_progress.early == 1;
  if (!is_first)
    resends.restart(sent_end_);
  else if (resends.selective())
    resends.restart();
  else if (recovery_.peer_is_selective)
    resends.limit_to(last_psn());
  retransmit();
}

/// Returns the PSN of the last packet in flight. Precondition: has_outstanding().
std::uint32_t packet_requester::last_psn() noexcept {
  const sent_request& last = at(live_ - 1);
  if (is_read_or_atomic(last.opcode)) return psn_plus(last.first_psn, last.acknowledged);
  return psn_plus(last.first_psn, std::max(last.sent, last.acknowledged + 1) - 1);
}

/// Retransmits all unacknowledged packets and counts a retry. If the retry count is exhausted,
/// fails the oldest request.
void packet_requester::go_back() noexcept {
  if (!has_outstanding()) return;
  if (recovery_.since_progress.retries >= self_.attributes().retry_count)
    return fail_retries_exceeded();
  ++recovery_.since_progress.retries;
  recovery_.resends.select_all();
  retransmit();
}

/// Has the requester submit all unacknowledged requests again. Precondition: has_outstanding().
void packet_requester::retransmit() noexcept {
  recovery_.since_progress.repairing = true;
  end_oldest({.outcome = verdict::unread});
}

void packet_requester::fail_retries_exceeded() noexcept {
  out_.count(packet_event::retries_exceeded);
  end_oldest({.outcome = verdict::peer_gone,
              .why = {.why = reason::no_acknowledgement,
                      .length = acknowledgement_timeout(self_.attributes().timeout),
                      .limit = recovery_.since_progress.retries,
                      .detail = self_.attributes().destination_qpn}});
}

}  // namespace verbena::softdev::wire
