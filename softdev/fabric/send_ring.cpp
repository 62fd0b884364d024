// SPDX-License-Identifier: MIT
#include "softdev/fabric/send_ring.hpp"

#include <algorithm>
#include <utility>

#include "softdev/core/copy.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/records.hpp"

namespace verbena::softdev {

using namespace records;

namespace {
/// A request with less payload is announced only at the end of its run.
constexpr std::uint64_t min_announced_bytes = 4096;
/// The most requests that one call sends after the first.
constexpr std::uint8_t max_followers_in_ring = 63;

/// Returns the most payload of a record. Two records fit in the half of the ring for requests.
std::uint32_t most_payload(const peer& to) noexcept {
  return std::min(payload_bytes, to.max_record() / 2);
}

/// Copies the members one by one, as they were just stored: a wider load would wait for the stores.
std::span<std::byte> front_of(const ring_producer::reservation& record) noexcept {
  return {record.payload.data(), record.payload.size()};
}

void note_receive(connection& by, const message& what) noexcept {
  by.unannounced.consume_receives = true;
  by.unannounced.solicited |= what.solicited;
  by.unannounced.attempt = what.attempt;
}
}  // namespace

void ring_sender::send(queue_pair& sender, connection& by, const message& what,
                       std::span<const segment> local, response& out) noexcept {
  if (!has_begun(by, what)) {
    by.sent.partly = false;
    by.sent.psn = what.psn;
    by.sent.bytes = 0;
  }
  if (by.unannounced.qpn != what.destination_qpn) announce(by);
  const std::uint64_t begun = by.sent.bytes;
  const std::byte* bad = nullptr;
  const bool by_reference = !by.sent.partly && references_.takes(sender, by, what);
  const auto push = [&] {
    return by_reference ? references_.push(sender, by, what) : push_parts(by, what, local, bad);
  };
  pushed all = push();
  if (all == pushed::no_room) {
    // Try once more: room may have returned before the queue pair was known to wait.
    state_.wait_for_room(sender, *by.to);
    all = push();
    if (all == pushed::no_room) {
      out.outcome = by.sent.partly ? verdict::partial : verdict::blocked;
      out.moved = by.sent.bytes != begun;
      return;
    }
  }
  by.sent.partly = false;
  if (all == pushed::refused) {
    out = local_fault(bad);
    return;
  }
  if (what.opcode == opcode::rdma_read) {
    by.read.waits = true;
    by.read.psn = what.psn;
  }
  if (consumes_receive(what.opcode)) {
    if (by.unannounced.qpn != 0) {
      note_receive(by, what);
    } else {
      static_cast<void>(signal_receiver(*by.to, by, announced_requests(what)));
    }
  }
  state_.note_by_ring(sender, *by.to);
  out.outcome = rules_of(what.transport).acknowledged ? verdict::pending : verdict::done;
  if (by.unannounced.qpn != 0 && sender.sender().may_have_following() &&
      !is_read_or_atomic(what.opcode))
    out.followers = send_following(sender, by);
}

/// Sends the short requests that follow a request, under one lock. Returns their number. They are
/// not executed directly, because the first request is not answered yet.
std::uint8_t ring_sender::send_following(queue_pair& sender, connection& by) noexcept {
  peer& to = *by.to;
  const std::uint32_t spare = state_.reserve_for_answers();
  const std::uint64_t most = std::min<std::uint64_t>(min_announced_bytes - 1, most_payload(to));
  std::uint8_t sent = 0;
  outgoing_request next;
  const message& what = next.what;
  const auto lock = to.lock_sends();
  while (sent < max_followers_in_ring &&
         sender.sender().prepare_following(sent + 1U, requester::numbering::in_sequence, next)) {
    if (is_read_or_atomic(what.opcode) || what.length > most) break;
    const auto record = to.try_reserve(
        type::request, request_bytes(what.transport, what.opcode) + what.length, spare);
    if (record.status != ring_status::ok) break;
    std::span<std::byte> room = front_of(record);
    put_request(room, what);
    if (put_payload(room, next.local, 0) != nullptr) break;
    to.commit();
    by.sent.psn = what.psn;
    if (consumes_receive(what.opcode)) note_receive(by, what);
    ++sent;
  }
  by.sent.position = to.position();
  state_.note_by_ring(sender, to, sent);
  return sent;
}

void ring_sender::announce(connection& by) noexcept {
  if (by.unannounced.qpn == 0) return;
  const auto due = std::exchange(by.unannounced, {});
  peer& to = *by.to;
  // A datagram is not sent again: if it was dropped, its signal did not result in an event, and the
  // next one for the same arming is not signaled.
  const bool by_signal = due.consume_receives && due.acknowledged;
  auto lock = to.lock_sends();
  bool woken = true;
  if (by_signal)
    woken = to.announce(attention::at_check);
  else
    to.announce();
  lock.unlock();
  if (!due.consume_receives) return;
  const bool signaled = signal_receiver(to, by, due);
  if (woken || signaled) return;
  lock.lock();
  to.announce();
}

bool signal_receiver(peer& to, connection& by, const announced_requests& what) noexcept {
  const completion_queue_line* const line = to.segment().receive_queue_of(what.qpn);
  if (line == nullptr) return false;
  const std::uint32_t word = line->arm.load(std::memory_order_seq_cst);
  const arm_state armed = arm_state_of(word);
  const bool wanted = armed == arm_state::any || (armed == arm_state::solicited && what.solicited);
  if (!wanted) return false;
  auto& last = by.signalled;
  if (word == last.arming && what.qpn == last.qpn) {
    // A request that is tried again had no effect: its signal did not result in an event.
    if (what.attempt != last.attempt) return false;
    // If the peer has handled the request before it armed the queue, it took the signal in vain.
    const auto since = static_cast<std::uint32_t>(by.sent.position) - last.position;
    if (!to.has_handled(by.sent.position - since)) return true;
  }
  const std::uint32_t channel = line->channel.load(std::memory_order_relaxed);
  if (channel == 0) return false;
  const bool by_answer =
      to.signalled_by_answer.load(std::memory_order_acquire) == mark_of(*line, word) &&
      !to.has_handled(to.signalled_answer_end.load(std::memory_order_relaxed));
  if (!by_answer && !to.signal_channel(channel)) return false;
  last.arming = word;
  last.qpn = what.qpn;
  last.attempt = what.attempt;
  last.position = static_cast<std::uint32_t>(by.sent.position);
  return true;
}

/// Writes the rest of a request to the ring. If a piece of it is not accessible, sets `bad` to it.
pushed ring_sender::push_parts(connection& by, const message& what, std::span<const segment> local,
                               const std::byte*& bad) noexcept {
  const std::uint64_t total = is_read_or_atomic(what.opcode) ? 0 : what.length;
  const auto lock = by.to->lock_sends();
  const std::uint32_t spare = state_.reserve_for_answers();
  const std::uint32_t chunk = most_payload(*by.to);
  const bool is_short = !by.sent.partly && total < min_announced_bytes;
  bool complete = false;
  while (!complete) {
    const std::uint32_t header = by.sent.partly
                                     ? static_cast<std::uint32_t>(sizeof(fragment_header))
                                     : request_bytes(what.transport, what.opcode);
    const auto part =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(total - by.sent.bytes, chunk));
    const auto record =
        by.to->try_reserve(by.sent.partly ? type::fragment : type::request, header + part, spare);
    if (record.status != ring_status::ok) break;
    std::span<std::byte> room = front_of(record);
    if (by.sent.partly) {
      put(room, fragment_header{what.destination_qpn, what.source_qpn, what.psn, what.attempt,
                                by.sent.bytes});
    } else {
      put_request(room, what);
    }
    bad = put_payload(room.first(part), local, by.sent.bytes);
    if (bad != nullptr) break;
    by.to->commit();
    by.sent.partly = true;
    by.sent.bytes += part;
    complete = by.sent.bytes == total;
  }
  by.sent.position = by.to->position();
  if (is_short && complete) {
    by.unannounced.qpn = what.destination_qpn;
    by.unannounced.acknowledged = rules_of(what.transport).acknowledged;
  } else {
    by.to->announce();
  }
  if (bad != nullptr) return pushed::refused;
  return complete ? pushed::all : pushed::no_room;
}

}  // namespace verbena::softdev
