// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_requester.hpp"

#include <algorithm>

#include "softdev/core/attributes.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/same_process.hpp"
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

}  // namespace

packet_requester::packet_requester(queue_pair& self, std::uint32_t mtu, packet_output& out,
                                   const offer_options& offers) noexcept
    : self_(self),
      out_(out),
      mtu_(mtu),
      acknowledged_(rules_of(self.transport()).acknowledged),
      recovery_{.offers = selective_offers(offers)} {}

/// Returns how many packets may be sent, beginning with `psn`.
std::uint32_t packet_requester::room_from(std::uint32_t psn) noexcept {
  if (!acknowledged_) return psn_mask;
  const std::uint32_t oldest = requests_.oldest_psn();
  const time_ns now = flow_.paces() ? self_.home().now() : 0;
  return flow_.room({oldest, psn, recovery_.resends.received_from(oldest)}, now,
                    timer_.round_trip());
}

bool packet_requester::may_put() noexcept {
  flow_.waits_for_room = !out_.has_room();
  return !flow_.waits_for_room;
}

/// The packets before `end_psn` have been sent. The response to those before `measured_end` ends a
/// measurement of the round-trip time.
void packet_requester::note_sent(std::uint32_t end_psn, std::uint32_t measured_end) noexcept {
  if (psn_distance(sent_end_, end_psn) > 0) {
    sent_end_ = end_psn;
    if (acknowledged_ && !timer_.measures()) timer_.measure(self_.home().now(), measured_end);
  }
  start_timer();
}

void packet_requester::start_timer() noexcept {
  const std::uint8_t code = acknowledged_ ? self_.attributes().timeout : std::uint8_t{0};
  if (timer_.runs() || code == 0) return;
  timer_.start(self_.home().now(), acknowledgement_timeout(code), recovery_.since_progress.early);
}

response packet_requester::submit(const message& what, std::span<const segment> local) noexcept {
  flow_.waits_for_room = false;
  if (!begun_) {
    begun_ = true;
    requests_.begin(what.psn);
    sent_end_ = what.psn;
    flow_.begin(what.psn);
    recovery_.responses.begin(what.psn);
    recovery_.executed_end = what.psn;
  }
  if (!acknowledged_) return submit_unreliable(what, local);
  const std::uint32_t index =
      requests_.count() == 0 ? 0 : (what.psn - requests_[0].number) & psn_mask;
  VERBENA_ASSERT(index <= requests_.count(),
                 "requests are submitted in the order of their numbers");
  if (index == requests_.count()) {
    if (index == 0 && flow_.is_idle()) flow_.end_idle(self_.home().now(), timer_);
    if (room_from(requests_.next_psn()) == 0 || (requests_.is_full() && !requests_.enlarge()) ||
        !may_put())
      return {.outcome = verdict::blocked};
    requests_.push(what, packets_of(what, mtu_));
  }
  sent_request& which = requests_[index];
  if (index >= requests_.live()) {
    requests_.set_live(index + 1);
    which.attempt = what.attempt;
    which.sent = which.acknowledged;
  }
  if (which.complete()) return complete_early(which, local);
  if (refused_.is_within(which.first_psn, which.packets))
    return refused_.result(self_.attributes().destination_qpn);
  if (!is_read_or_atomic(what.opcode)) return put_packets(which, what, local);
  const std::uint32_t psn = which.oldest_psn();
  if ((room_from(psn) == 0 && !ignores_window(requests_.oldest_psn(), psn)) || !may_put())
    return {.outcome = verdict::partial};
  return put_read_or_atomic(which, what);
}

/// Ends a request whose response arrived while it waited to be submitted again.
response packet_requester::complete_early(const sent_request& done,
                                          std::span<const segment> local) noexcept {
  const std::uint64_t original = done.original;
  const bool stores = is_atomic(done.opcode);
  requests_.pop();
  if (!stores) return {};
  const auto [fault, piece] = scatter(local, 0, std::as_bytes(std::span(&original, 1)));
  return fault == copy_fault::none ? response{} : local_fault(piece);
}

/// Over UC, a message is done when all of its packets have been sent. The ring contains only the
/// message whose packets wait for room.
response packet_requester::submit_unreliable(const message& what,
                                             std::span<const segment> local) noexcept {
  if (requests_.live() != 0 && requests_[0].number != what.psn)
    requests_.pop();  // the requester has abandoned this request
  if (requests_.live() == 0) {
    if (!may_put()) return {.outcome = verdict::blocked};
    requests_.push(what, packets_of(what, mtu_));
    requests_.set_live(1);
  }
  const std::uint32_t begun = requests_[0].sent;
  response put = put_packets(requests_[0], what, local);
  put.moved = requests_[0].sent != begun;
  if (put.outcome == verdict::partial) return put;
  requests_.pop();
  return put.outcome == verdict::pending ? response{} : put;
}

/// Returns false if the payload is not accessible.
bool packet_requester::put(const packet& made) noexcept {
  if (was_sent(made.psn)) {
    out_.count(packet_event::retransmitted);
    recovery_.resends.note_sent(made.psn);
    timer_.note_retransmitted(made.psn);
  }
  if (flow_.paces()) flow_.note_put(self_.home().now());
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
  const std::uint32_t oldest = requests_.oldest_psn();
  std::uint32_t room = room_from(psn_plus(which.first_psn, which.sent));
  // The window has shrunk, and no packet in flight requests an acknowledgement: this packet does.
  if (room == 0 && flow_.is_quiet(oldest)) room = 1;
  while (which.sent < which.packets) {
    const std::uint32_t psn = psn_plus(which.first_psn, which.sent);
    const bool skipped = skips(psn);
    if (!skipped && room == 0 && !ignores_window(oldest, psn)) room = room_from(psn);
    if (!skipped && ((room == 0 && !ignores_window(oldest, psn)) || !may_put()))
      return {.outcome = verdict::partial};
    if (room > 0) --room;
    const bool last = which.sent + 1 == which.packets;
    const std::uint32_t bytes = last ? what.length - which.sent * mtu_ : mtu_;
    made.opcode = make_opcode(acknowledged_ ? packet_transport::rc : packet_transport::uc,
                              request_operation(what.opcode, which.sent, which.packets));
    made.psn = psn;
    made.solicited = last && what.solicited;
    made.ack_requested =
        acknowledged_ && (last || (which.sent + 1) % acknowledgement_interval == 0);
    if (skipped) {
      payload.skip(bytes);
    } else {
      made.ack_requested |=
          acknowledged_ && (is_exempt(psn) || (room == 0 && flow_.must_request_ack(oldest, psn)));
      made.payload = payload.view(bytes);
      if (made.payload.size() != bytes || !put(made)) return local_fault(payload.piece());
    }
    if (made.ack_requested) flow_.note_ack_requested(psn_plus(psn, 1));
    ++which.sent;
    note_sent(psn_plus(psn, 1), psn_plus(psn, 1));
  }
  return {.outcome = verdict::pending};
}

/// Sends the packet of a READ or atomic operation. If it was sent before: sends it again if the
/// request or its response is missing.
response packet_requester::put_read_or_atomic(sent_request& which, const message& what) noexcept {
  if (what.opcode == opcode::rdma_read) {
    if (!put_read(which, what)) return {.outcome = verdict::partial};
  } else if (!skips(which.first_psn) || recovery_.responses.requests(which.first_psn)) {
    packet made = single_packet_of(what, which.first_psn);
    made.atomic = operands_of(what);
    if (was_sent(made.psn)) recovery_.responses.note_requested_before(psn_plus(made.psn, 1));
    static_cast<void>(put(made));  // the packet has no payload
  }
  which.sent = which.packets;
  const std::uint32_t end = psn_plus(which.first_psn, which.packets);
  flow_.note_ack_requested(end);
  note_sent(end, psn_plus(which.first_psn, 1));
  return {.outcome = verdict::pending};
}

/// Records that packets of a READ response were requested again.
void packet_requester::note_repeated_read(const sent_request& which, std::uint32_t begin,
                                          std::uint32_t end) noexcept {
  const std::uint32_t psn = psn_plus(which.first_psn, begin);
  const bool is_rest = end == which.packets;
  // After a request for all of the rest, a later gap can be requested again.
  recovery_.responses.note_requested_before(psn_plus(psn, is_rest ? 1 : end - begin));
  if (!is_first(which)) return;
  if (is_rest) recovery_.responses.note_rest_requested(psn, psn_plus(psn, end - begin));
  // Later responses have shown that the response is lost, not late.
  const bool is_lost = recovery_.since_progress.early == 0 && recovery_.since_progress.retries == 0;
  if (is_lost && begin == which.acknowledged && !timer_.measures())
    timer_.measure_repetition(self_.home().now(), psn_plus(psn, 1));
}

/// Requests the bytes of a READ from the first missing packet on, or only the missing parts of a
/// response that is arriving. Returns false if there is no room for all requests.
bool packet_requester::put_read(const sent_request& which, const message& what) noexcept {
  const auto psn_of = [&](std::uint32_t index) { return psn_plus(which.first_psn, index); };
  const auto put_part = [&](std::uint32_t begin, std::uint32_t end) {
    packet made = single_packet_of(what, psn_of(begin));
    made.remote = range_of_packets(what, begin, end, mtu_);
    const bool repeats = was_sent(made.psn);
    static_cast<void>(put(made));  // the packet has no payload
    if (repeats) note_repeated_read(which, begin, end);
  };
  const std::uint32_t first = which.acknowledged;
  if (!skips(psn_of(first))) {
    put_part(first, which.packets);
    return true;
  }
  const auto is_missing = [&](auto index) { return recovery_.responses.requests(psn_of(index)); };
  // rxe drops a repeated READ of bytes before those of an earlier repetition. A responder that has
  // not received the READ would execute the part as another READ.
  const bool is_executed = psn_distance(which.first_psn, recovery_.executed_end) > 0;
  if (!recovery_.offers.accepted() || !is_executed) {
    if (is_missing(first)) put_part(first, which.packets);
    return true;
  }
  const std::uint32_t limit = std::min(which.packets - first, response_window::capacity) + first;
  for (std::uint32_t begin = first; begin < limit; ++begin) {
    if (!is_missing(begin)) continue;
    std::uint32_t end = begin + 1;
    while (end < limit && is_missing(end)) ++end;
    if (!may_put()) return false;
    put_part(begin, end);
    begin = end;
  }
  return true;
}

void packet_requester::receive(const packet& what) noexcept {
  if (is_window_grant(what)) return receive_grant(what);
  // Ignores PSNs that were not sent or are already acknowledged.
  const std::uint32_t oldest = requests_.oldest_psn();
  if (requests_.count() == 0 || psn_distance(oldest, what.psn) < 0 || !was_sent(what.psn)) return;
  recovery_.executed_end = later_psn(recovery_.executed_end, executed_before(what));
  switch (operation_of(what.opcode)) {
    case operation::acknowledge:
      if (what.opcode == packet_opcode::selective_acknowledgement)
        receive_selective(what);
      else if (is_ack_syndrome(what.answer.syndrome))
        acknowledge_before(psn_plus(what.psn, 1));
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
  if (recovery_.responses.is_ahead()) complete_following();
  if (refused_.exists()) apply_fatal_nak();
  if (rnr_.exists) apply_rnr_nak();
  request_missing();
}

/// Resets loss recovery and the timer, because further packets were acknowledged.
void packet_requester::note_progress() noexcept {
  const std::uint32_t oldest = requests_.oldest_psn();
  recovery_.since_progress = {};
  timer_.stop();
  const bool is_measured = timer_.measures_before(oldest);
  const time_ns now = is_measured || requests_.count() == 0 ? self_.home().now() : 0;
  const time_ns sample = is_measured ? timer_.end_measurement(now) : 0;
  flow_.congestion().acknowledge(oldest, sent_end_);
  recovery_.resends.note_acknowledged(oldest);
  recovery_.responses.advance(oldest);
  if (flow_.note_round_trip(sample, timer_, oldest))
    if (const auto expected = expected_psn()) recovery_.offers.put_window(self_, *expected, out_);
  if (requests_.count() == 0) flow_.note_idle(now);
  // If packets of the oldest request wait for room, no later request is in flight.
  if (requests_.live() > 0 && requests_[0].sent > requests_[0].acknowledged) start_timer();
}

void packet_requester::answer(const sent_request& which, const response& what) noexcept {
  static_cast<void>(self_.sender().answer(
      {self_.attributes().destination_qpn, which.number, which.attempt}, what));
}

/// Acknowledges the packets before `end_psn`, up to a READ or atomic operation whose response was
/// lost.
void packet_requester::acknowledge_before(std::uint32_t end_psn) noexcept {
  const sent_requests::acknowledgement done = requests_.acknowledge_before(end_psn);
  if (done.progress) note_progress();
  if (done.some) answer(done.last, {});
  if (done.lost)
    recovery_.responses.note_acknowledged(end_psn, requests_.responses_end_before(end_psn));
}

/// Processes a NAK, which acknowledges all earlier packets.
void packet_requester::receive_nak(const packet& what) noexcept {
  const std::uint8_t syndrome = what.answer.syndrome;
  const bool not_ready = (syndrome & syndrome_kind_mask) == syndrome_rnr_nak;
  if (!not_ready && syndrome != syndrome_sequence_error) {
    refused_ = {syndrome, what.psn};  // `receive` applies it
    return;
  }
  if (!not_ready) recovery_.offers.put(self_, what.psn, out_);
  acknowledge_before(what.psn);
  if (!not_ready) {
    // rxe sends such a NAK for the packets after the one for which it was not ready.
    if (rnr_.exists && rnr_.psn == what.psn) return;
    return repair();
  }
  // `receive` applies it
  rnr_ = {static_cast<std::uint8_t>(syndrome & syndrome_value_mask), what.psn, true};
}

/// Waits for the responder, which was not ready, when all earlier requests are complete. Missing
/// responses to READs and atomic operations are requested first.
void packet_requester::apply_rnr_nak() noexcept {
  acknowledge_before(rnr_.psn);
  const std::int32_t unanswered = psn_distance(requests_.oldest_psn(), rnr_.psn);
  if (unanswered > 0) return;
  rnr_.exists = false;
  if (unanswered != 0) return;
  select_all();  // also of requests that wait to be submitted again
  flow_.congestion().restart();
  if (!requests_.has_outstanding()) return;
  recovery_.since_progress.retries = 0;
  end_oldest(rnr_.result(self_.attributes().destination_qpn));
}

/// Processes a selective acknowledgement. It acknowledges the packets before its PSN.
void packet_requester::receive_selective(const packet& what) noexcept {
  out_.count(packet_event::selective_ack_received);
  recovery_.offers.note_accepted();
  acknowledge_before(what.psn);
  if (requests_.live() == 0) return;
  const psn_set received = received_packets(what);
  if (received.empty()) return repair();
  recovery_.resends.limit_to_missing(received, sent_end_);
  if (!requests_.has_outstanding() || !has_missing()) return;
  recovery_.responses.begin_requests();
  resend();
}

/// Processes the grant of a larger window. `what.psn`: the PSN that the peer expects.
void packet_requester::receive_grant(const packet& what) noexcept {
  const std::int32_t ahead = psn_distance(requests_.oldest_psn(), what.psn);
  if (!begun_ || ahead < -static_cast<std::int32_t>(largest_window) ||
      psn_distance(what.psn, sent_end_) < 0)
    return;
  recovery_.offers.note_granted();
  flow_.enlarge(std::min(granted_reach(what), largest_window));
}

/// Returns whether packets in flight must be sent again.
bool packet_requester::has_missing() noexcept {
  return requests_.any_in_flight(
      [this](std::uint32_t psn) { return was_sent(psn) && recovery_.resends.sends(psn); });
}

/// Fails the request that the responder refused with a fatal NAK, after all earlier requests are
/// done. If the requester does not have the request in flight, `submit` fails it. A refused READ
/// can be complete: the responder also refuses a late duplicate.
void packet_requester::apply_fatal_nak() noexcept {
  refused_.forget_before(requests_.first_psn());
  if (!refused_.exists()) return;
  acknowledge_before(refused_.psn);
  if (requests_.live() > 0 && refused_.is_within(requests_[0].first_psn, requests_[0].packets))
    end_oldest(refused_.result(self_.attributes().destination_qpn));
}

/// Reports the result of the oldest request to the requester. If the result is a retry, the
/// requester submits all requests in flight again.
void packet_requester::end_oldest(const response& what) noexcept {
  requests_.set_live(0);
  flow_.begin(requests_.oldest_psn());
  timer_.stop();
  answer(requests_[0], what);
}

/// Has the requester submit all requests in flight again, because packets are lost.
void packet_requester::resend() noexcept {
  flow_.congestion().note_loss(requests_.oldest_psn(), sent_end_);
  end_oldest({.outcome = verdict::unread});
}

/// Fails the oldest request because its response is invalid.
void packet_requester::end_badly_answered(const packet& what) noexcept {
  constexpr verdict bad_answer = verdict::pending;  // see status_of
  end_oldest({.outcome = bad_answer,
              .why = {.why = reason::bad_request,
                      .detail = self_.attributes().destination_qpn,
                      .extra = what.psn}});
}

/// Returns the READ or atomic operation to which `what` is a response. The earlier packets are
/// acknowledged then, up to a READ or atomic operation without a response.
packet_requester::answered packet_requester::find_answered(const packet& what) noexcept {
  for (std::uint32_t i = 0; i < requests_.count(); ++i) {
    sent_request& each = requests_[i];
    const std::int32_t index = psn_distance(each.first_psn, what.psn);
    if (index < 0 || index >= static_cast<std::int32_t>(each.packets)) continue;
    if (!is_read_or_atomic(each.opcode)) return {};
    const bool waits = !requests_.is_submitted(i);
    acknowledge_before(each.first_psn);
    return {&each, waits};
  }
  return {};
}

bool packet_requester::fits(const sent_request& which, std::uint32_t index,
                            const packet& what) const noexcept {
  const bool is_last = index + 1 == which.packets;
  return is_read_response(
      what, is_last ? which.length - index * mtu_ : mtu_,
      {.is_last = is_last, .can_end = recovery_.responses.was_requested(what.psn)});
}

/// Processes a packet of a READ response. The PSN alone identifies it: packets of the first
/// response can arrive after the READ was retransmitted, and they contain the same data. If an
/// earlier packet is missing, its bytes are placed, and the missing ones are requested again.
void packet_requester::receive_data(const packet& what) noexcept {
  const auto [which, waits] = find_answered(what);
  if (which == nullptr || which->opcode != opcode::rdma_read) return;
  const std::uint32_t index = (what.psn - which->first_psn) & psn_mask;
  if (index < which->acknowledged) return;
  if (recovery_.responses.contains(what.psn)) return recovery_.responses.note_arrival(what.psn);
  // The result of a later READ must not be known before that of the oldest one.
  if (!is_first(*which)) return recovery_.responses.note_dropped(what.psn);
  const bool is_next = index == which->acknowledged;
  if (!fits(*which, index, what)) return is_next && !waits ? end_badly_answered(what) : void();
  if (!is_next && !recovery_.responses.has_room_for(what.psn)) return;
  const request_id id{self_.attributes().destination_qpn, which->number, which->attempt};
  const std::uint64_t offset = std::uint64_t{index} * mtu_;
  if (waits ? !self_.sender().place_early(id, offset, what.payload)
            : !self_.sender().place(id, offset, what.payload))
    return;
  recovery_.responses.note_arrival(what.psn);
  if (is_next) {
    ++which->acknowledged;
    take_recorded(*which);
    note_progress();
    return complete_following();
  }
  recovery_.responses.add(what.psn);
  timer_.stop();  // the response is arriving
  if (!waits) start_timer();
}

/// Processes the response to an atomic operation. It is dropped, and requested again, if an earlier
/// response is missing.
void packet_requester::receive_original(const packet& what) noexcept {
  const auto [which, waits] = find_answered(what);
  if (which == nullptr || !is_atomic(which->opcode) || which->complete()) return;
  if (!is_first(*which)) {
    recovery_.responses.expect_before(psn_plus(what.psn, 1));
    return;
  }
  if (!is_ack_syndrome(what.answer.syndrome)) return waits ? void() : end_badly_answered(what);
  which->original = what.original;
  which->acknowledged = 1;
  const sent_request done = *which;
  if (!waits) requests_.pop();
  note_progress();
  if (!waits) answer(done, {.original = what.original});
  complete_following();
}

/// Completes the requests at the front whose responses or acknowledgements have arrived.
void packet_requester::complete_following() noexcept {
  while (requests_.live() > 0) {
    const sent_request& next = requests_[0];
    const std::uint32_t before = requests_.oldest_psn();
    if (next.opcode == opcode::rdma_read && next.sent == next.packets) {
      if (next.complete()) {
        const sent_request done = next;
        requests_.pop();
        note_progress();
        answer(done, {});
        continue;
      }
    } else {
      acknowledge_before(recovery_.responses.acknowledged());
    }
    if (requests_.oldest_psn() == before) return;
    note_progress();
  }
}

/// Acknowledges the responses of a READ that have arrived after a gap and follow without one now.
void packet_requester::take_recorded(sent_request& which) noexcept {
  while (!which.complete() && recovery_.responses.take(which.oldest_psn())) ++which.acknowledged;
}

/// Requests the responses again that are missing although later ones have arrived.
void packet_requester::request_missing() noexcept {
  if (!recovery_.responses.has_new_gap()) return;
  recovery_.responses.begin_requests();
  if (requests_.has_outstanding()) resend();
}

/// Retransmits after a loss. Ignores further losses until the retransmission is acknowledged.
void packet_requester::repair() noexcept {
  if (!recovery_.since_progress.repairing) go_back();
}

void packet_requester::expire() noexcept {
  flow_.end_pause(self_.home().now());
  if (!timer_.runs() || self_.home().now() < timer_.deadline()) return;
  timer_.stop();
  if (!requests_.has_outstanding() || self_.state() == queue_pair_state::error) return;
  if (const auto expected = expected_psn()) recovery_.offers.put(self_, *expected, out_);
  if (timer_.is_early()) {
    ++recovery_.since_progress.early;
    timer_.back_off();
    return retransmit_early();
  }
  out_.count(packet_event::timed_out);
  flow_.congestion().restart();
  go_back();
}

/// Returns the PSN of an offer, the first one that the responder can expect. Returns nullopt if the
/// responder may or may not have executed a long READ: an offer is accepted only if its PSN is
/// close to the expected one.
std::optional<std::uint32_t> packet_requester::expected_psn() noexcept {
  const std::uint32_t expected = requests_.least_expected_psn(recovery_.executed_end);
  if (requests_.count() == 0) return expected;
  const sent_request& oldest = requests_[0];
  const bool is_unknown = oldest.opcode == opcode::rdma_read && expected == oldest.first_psn &&
                          oldest.packets >= base_reach;
  return is_unknown ? std::nullopt : std::optional(expected);
}

/// Retransmits before the ACK timeout. With selective repeat, the first time sends only packets
/// that were reported missing, or the last packet: its acknowledgement reports which packets are
/// missing (a tail loss probe, RFC 8985). Precondition: has_outstanding().
void packet_requester::retransmit_early() noexcept {
  retransmission& resends = recovery_.resends;
  const std::uint32_t oldest = requests_.oldest_psn();
  const bool is_first = recovery_.since_progress.early == 1;
  const bool was_dropped = !is_read_or_atomic(requests_[0].opcode) && resends.was_received(oldest);
  recovery_.responses.restart(sent_end_);
  if (is_first && !was_dropped && resends.is_selective()) {
    resends.restart();
  } else if (is_first && !was_dropped && may_probe()) {
    resends.limit_to(requests_.last_psn());
  } else {
    select_all();
    recovery_.since_progress.repairing = true;
  }
  resend();
}

/// Selects all unacknowledged packets. The responder sends a further RNR NAK if it is not ready.
void packet_requester::select_all() noexcept {
  recovery_.resends.select_all(requests_.oldest_psn(), sent_end_);
  rnr_.exists = false;
}

/// Retransmits all unacknowledged packets and counts a retry. If the retry count is exhausted,
/// fails the oldest request.
void packet_requester::go_back() noexcept {
  select_all();
  if (!requests_.has_outstanding()) return;
  if (recovery_.since_progress.retries >= self_.attributes().retry_count)
    return fail_retries_exceeded();
  ++recovery_.since_progress.retries;
  recovery_.since_progress.repairing = true;
  resend();
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
