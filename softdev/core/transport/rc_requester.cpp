// SPDX-License-Identifier: MIT
#include "softdev/core/transport/rc_requester.hpp"

#include <algorithm>

#include "softdev/core/engine.hpp"
#include "softdev/core/process_slot.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/transport/rnr_retry.hpp"

namespace verbena::softdev {
namespace {

/// The interval at which a request without a timeout is tried again.
constexpr time_ns patient_retry = 100'000'000;

}  // namespace

void rc_requester::forget_window() noexcept {
  reads_in_flight_ = 0;
  receiver_retries_ = answer_retries_ = 0;
  waiting_ = wait::none;
}

void rc_requester::start_requests() noexcept {
  start_each([this](const send_entry& entry) { return may_start(entry); },
             [this](send_entry& entry) { return start(entry); });
}

bool rc_requester::wake_up() noexcept {
  if (self().home().now() < deadline_) {
    self().home().schedule(self(), deadline_);
    return false;
  }
  const bool unanswered = waiting_ == wait::answer && self().attributes().timeout != 0;
  stop_waiting();
  if (!unanswered) return true;
  if (answer_retries_ < self().attributes().retry_count) {
    ++answer_retries_;
    return true;
  }
  failure why = self().diagnosis().send_failure;
  why.length = acknowledgement_timeout(self().attributes().timeout);
  why.limit = answer_retries_;
  end(window().next(), completion_status::retry_exceeded, why);
  return true;
}

void rc_requester::stop_waiting() noexcept {
  waiting_ = wait::none;
  deadline_ = never;
}

bool rc_requester::may_start(const send_entry& entry) noexcept {
  if (reads_in_flight_ == 0) return true;
  if (entry.request.flags.contains(send_flag::fence)) return false;
  return !is_read_or_atomic(entry.request.opcode) ||
         reads_in_flight_ < self().attributes().max_rd_atomic;
}

/// Hands the next request to its path. Returns false if the queue stops at this request for now.
bool rc_requester::start(send_entry& entry) noexcept {
  if (is_read_or_atomic(entry.request.opcode) && self().attributes().max_rd_atomic == 0) {
    end(entry, completion_status::local_qp_operation_error,
        {.why = reason::no_read_depth,
         .detail = self().number(),
         .extra = static_cast<std::uint32_t>(entry.request.opcode)});
    return false;
  }
  entry.psn = next_psn_;
  outgoing_request out;
  const auto [refused, why] = prepare(window().submitted(), out);
  if (refused != completion_status::success) {
    end(entry, refused, why);
    return false;
  }
  entry.stage = send_entry::progress::in_flight;
  return settle(entry, send_along(find_route(self(), out.what), self(), out.what, out.local,
                                  window().empty()));
}

/// Handles the path's response to the next request. Returns false if the queue stops at this
/// request.
bool rc_requester::settle(send_entry& entry, const response& what) noexcept {
  if (what.outcome != verdict::blocked) window().note_begun();
  switch (what.outcome) {
    case verdict::done:
      entry.stage = entry.settled;
      receiver_retries_ = answer_retries_ = 0;
      break;
    case verdict::pending:
      if (is_read_or_atomic(entry.request.opcode)) ++reads_in_flight_;
      break;
    case verdict::partial:
      return false;  // in flight, but not submitted: `start` continues it
    case verdict::blocked:
    case verdict::unread:  // in answers only
      entry.stage = send_entry::progress::queued;
      return false;
    case verdict::receiver_not_ready:
      entry.stage = send_entry::progress::queued;
      wait_for_receiver(entry, what);
      return false;
    case verdict::no_answer:
      entry.stage = send_entry::progress::queued;
      wait_for_answer(what.why);
      return false;
    case verdict::peer_gone:
      end(entry, completion_status::retry_exceeded, what.why);
      return false;
    case verdict::invalid_request:
    case verdict::access_error:
    case verdict::operation_error:
    case verdict::local_protection_error:
      end(entry, status_of(what.outcome), window().name_local(window().submitted(), what.why));
      return false;
  }
  if (!what.direct) step_psn();
  window().submit_next();
  const auto stage = what.direct ? send_entry::progress::done : send_entry::progress::in_flight;
  for (std::uint8_t i = 0; i < what.followers; ++i) {
    window().note_begun();
    window().next().stage = stage;
    window().submit_next();
    if (!what.direct) step_psn();
  }
  return true;
}

void rc_requester::wait_for_receiver(send_entry& entry, const response& what) noexcept {
  const std::uint8_t allowed = self().attributes().rnr_retry;
  if (allowed != unlimited_rnr_retries && receiver_retries_ >= allowed) {
    const failure refused = rnr_retries_exceeded(self().attributes().destination_qpn,
                                                 receiver_retries_, what.rnr_timer);
    const bool injected = what.why.why == reason::injected_fault;
    end(entry, completion_status::rnr_retry_exceeded, injected ? what.why : refused);
    return;
  }
  if (allowed != unlimited_rnr_retries) ++receiver_retries_;
  answer_retries_ = 0;
  waiting_ = wait::receiver;
  wait_until(self().home().now() + rnr_time(what.rnr_timer));
}

void rc_requester::wait_for_answer(const failure& why) noexcept {
  self().diagnosis().send_failure = why;
  const std::uint8_t code = self().attributes().timeout;
  waiting_ = wait::answer;
  wait_until(self().home().now() + (code == 0 ? patient_retry : acknowledgement_timeout(code)));
}

void rc_requester::retry_now() noexcept {
  if (waiting_ == wait::answer) stop_waiting();
}

requester::start_decision rc_requester::apply(send_entry& entry, const fault_rule& rule) noexcept {
  if (rule.effect != fault_effect::receiver_not_ready) return requester::apply(entry, rule);
  wait_for_receiver(entry, {.outcome = verdict::receiver_not_ready,
                            .rnr_timer = rule.rnr_timer,
                            .why = {.why = reason::injected_fault, .detail = rule.number}});
  return start_decision::stop;
}

bool rc_requester::comes_from_peer(std::uint32_t from) noexcept {
  return from == self().attributes().destination_qpn;
}

/// Returns the request in flight with this number, or nullptr. The next request is in flight if it
/// is partial.
send_entry* rc_requester::in_flight(const request_id& which, std::uint64_t& index) noexcept {
  send_window& requests = window();
  if (which.attempt != attempt_ || requests.idle() || !comes_from_peer(which.from)) return nullptr;
  const std::uint64_t end = std::min(requests.submitted() + 1, requests.queue().posted());
  const auto found = [&]() -> send_entry* {
    if (index >= end) return nullptr;
    send_entry& entry = requests.at(index);
    const bool same = entry.psn == which.psn && entry.stage == send_entry::progress::in_flight;
    return same ? &entry : nullptr;
  };
  index = requests.retired() + ((which.psn - requests.at(requests.retired()).psn) & psn_mask);
  if (send_entry* const entry = found()) return entry;
  if (!faults().present()) return nullptr;
  // An injected delay holds requests in the window that were executed here and took no number.
  for (index = requests.retired(); index < end; ++index)
    if (send_entry* const entry = found()) return entry;
  return nullptr;
}

void rc_requester::finish_in_flight(send_entry& entry) noexcept {
  const bool counted =
      entry.stage == send_entry::progress::in_flight && is_read_or_atomic(entry.request.opcode);
  if (counted) --reads_in_flight_;
  entry.stage = entry.settled;
}

/// Finishes earlier sends and writes, which an answer also acknowledges. Returns false if an
/// earlier read or atomic has no answer, which is an error of the peer.
bool rc_requester::finish_earlier(std::uint64_t index) noexcept {
  for (std::uint64_t i = window().retired(); i < index; ++i) {
    send_entry& earlier = window().at(i);
    if (earlier.stage != send_entry::progress::in_flight) continue;
    finish_in_flight(earlier);
    if (!is_read_or_atomic(earlier.request.opcode)) continue;
    end(earlier, completion_status::bad_response_error,
        {.why = reason::bad_request,
         .detail = self().attributes().destination_qpn,
         .extra = earlier.psn});
    return false;
  }
  return true;
}

bool rc_requester::answer(const request_id& which, const response& what) noexcept {
  std::uint64_t index = 0;
  send_entry* entry = in_flight(which, index);
  if (entry == nullptr) return false;
  if (!finish_earlier(index)) return true;
  const bool whole = index < window().submitted();
  switch (what.outcome) {
    case verdict::done:
      if (!whole) break;
      if (is_atomic(entry->request.opcode))
        place(which, 0, std::as_bytes(std::span(&what.original, 1)));
      if (entry->stage == send_entry::progress::done) return true;  // storing the result failed
      finish_in_flight(*entry);
      receiver_retries_ = answer_retries_ = 0;
      return true;
    case verdict::receiver_not_ready:
      rewind_to(index);
      wait_for_receiver(*entry, what);
      return true;
    case verdict::no_answer:
      rewind_to(index);
      wait_for_answer(what.why);
      return true;
    case verdict::unread:
      rewind_to(index);
      return true;
    default:
      break;
  }
  if (whole) finish_in_flight(*entry);
  end(*entry, status_of(what.outcome), what.why);
  return true;
}

bool rc_requester::place(const request_id& which, std::uint64_t offset,
                         std::span<const std::byte> bytes) noexcept {
  std::uint64_t index = 0;
  send_entry* entry = in_flight(which, index);
  if (entry == nullptr || !is_read_or_atomic(entry->request.opcode) ||
      index >= window().submitted() || offset > entry->byte_count ||
      bytes.size() > entry->byte_count - offset)
    return false;
  const failure why = window().place(index, offset, bytes);
  if (why.why == reason::none) return true;
  finish_in_flight(*entry);
  end(*entry, completion_status::local_protection_error, why);
  run();  // the later answer finds no request in flight
  return true;
}

bool rc_requester::place_early(const request_id& which, std::uint64_t offset,
                               std::span<const std::byte> bytes) noexcept {
  if (window().idle() || !comes_from_peer(which.from)) return false;
  const std::uint64_t first = window().retired();
  const std::uint64_t index = first + ((which.psn - window().at(first).psn) & psn_mask);
  if (index < window().submitted() || index >= window().queue().posted()) return false;
  const send_entry& entry = window().at(index);
  if (entry.psn != which.psn || entry.stage == send_entry::progress::done ||
      entry.request.opcode != opcode::rdma_read || offset > entry.byte_count ||
      bytes.size() > entry.byte_count - offset)
    return false;
  return window().place(index, offset, bytes).why == reason::none;
}

void rc_requester::process_lost(std::uint32_t slot, const failure& why) noexcept {
  if (slot_of_number(self().attributes().destination_qpn) != slot) return;
  release_all_held();
  if (window().idle()) return;
  // Applies even if a later request has already failed: that one waits for the answer to the
  // oldest.
  send_entry& oldest = window().at(window().retired());
  if (oldest.stage == send_entry::progress::done) return;
  if (!window().empty()) finish_in_flight(oldest);
  end(oldest, completion_status::retry_exceeded, why);
  stop_waiting();
}

/// Removes the requests from `index` on from the window; they will be submitted again. A local
/// failure of one of them is discarded, because it will occur again.
void rc_requester::rewind_to(std::uint64_t index) noexcept {
  next_psn_ = window().at(index).psn;
  ++attempt_;
  const std::uint64_t submitted = window().submitted();
  const std::uint64_t last = window().has_next() ? submitted + 1 : submitted;
  for (std::uint64_t i = index; i < last; ++i) {
    send_entry& entry = window().at(i);
    const bool counted = i < submitted && entry.stage == send_entry::progress::in_flight &&
                         is_read_or_atomic(entry.request.opcode);
    if (counted) --reads_in_flight_;
    // Any other status is that of an injected error, which applies once.
    if (entry.stage == send_entry::progress::done) entry.status = completion_status::success;
    entry.stage = send_entry::progress::queued;
  }
  window().rewind_to(index);
  reopen();
}

}  // namespace verbena::softdev
