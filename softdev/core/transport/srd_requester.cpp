// SPDX-License-Identifier: MIT
#include "softdev/core/transport/srd_requester.hpp"

#include <algorithm>

#include "softdev/core/engine.hpp"
#include "softdev/core/process_slot.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/transport/rnr_retry.hpp"

namespace verbena::softdev {
namespace {

/// The time that a request waits for a queue pair or a process that does not answer.
constexpr time_ns longest_silence = 1'000'000'000;
constexpr time_ns between_tries = 1'000'000;
/// The time until a path without room is tried again, unless it reports room earlier.
constexpr time_ns short_while = 50'000;

/// Removes the first `bytes` of a request.
void drop_front(outgoing_request& out, std::uint64_t bytes) noexcept {
  out.what.length -= static_cast<std::uint32_t>(bytes);
  out.what.earlier_bytes = static_cast<std::uint32_t>(bytes);
  out.what.remote_address += bytes;
  std::span<segment> pieces = std::span(out.pieces).subspan(1, out.local.size());
  while (!pieces.empty() && bytes >= pieces.front().bytes) {
    bytes -= pieces.front().bytes;
    pieces = pieces.subspan(1);
  }
  if (bytes > 0 && !pieces.empty()) {
    pieces.front().data += bytes;
    pieces.front().bytes -= bytes;
  }
  out.local = pieces;
}

/// Returns whether a retry cannot succeed: no queue pair with that number accepts the request.
bool is_final(reason why) noexcept {
  return why == reason::peer_unknown || why == reason::peer_gone ||
         why == reason::transport_mismatch || why == reason::qkey_mismatch;
}

/// Adds the time after which a request without an answer ends. Its attempts are not counted.
failure given_up(failure why) noexcept {
  why.length = longest_silence;
  why.limit = never;
  return why;
}

}  // namespace

delivery& srd_requester::delivery_of(std::uint64_t index) noexcept {
  return *std::launder(reinterpret_cast<delivery*>(window().queue().extra(index)));
}

void srd_requester::start_requests() noexcept {
  start_each([](const send_entry& /*entry*/) { return true; },
             [this](send_entry& entry) { return start(entry); });
}

/// Adds the next request to the window. Returns false if its path has no room now.
bool srd_requester::start(send_entry& entry) noexcept {
  const std::uint64_t index = window().submitted();
  entry.psn = next_psn_;
  delivery_of(index).give_up_at = self().home().now() + longest_silence;
  window().submit_next();
  if (!deliver(index)) {
    window().rewind_to(index);
    return false;
  }
  step_psn();
  return true;
}

/// Hands the rest of a request of the window to its path. Returns false if the path has no room.
bool srd_requester::deliver(std::uint64_t index) noexcept {
  delivery& how = delivery_of(index);
  outgoing_request out;
  const auto [refused, why] = prepare(index, out);
  if (refused != completion_status::success) {
    fail(index, refused, why);
    return true;
  }
  window().at(index).stage = send_entry::progress::in_flight;
  out.what.attempt = how.attempt = ++attempt_;
  if (how.done_bytes > 0) drop_front(out, how.done_bytes);
  constexpr bool earlier_done = true;  // requests have no order
  return settle(
      index, send_along(find_route(self(), out.what), self(), out.what, out.local, earlier_done));
}

/// Handles the response of a path, or of the responder, to a request of the window. Returns false
/// if the path had no room.
bool srd_requester::settle(std::uint64_t index, const response& what) noexcept {
  switch (what.outcome) {
    case verdict::done:
      finish(index);
      return true;
    case verdict::pending:
      delivery_of(index).part_bytes = what.original;
      return true;
    case verdict::blocked:
    case verdict::partial:
    case verdict::unread:  // over RC only
      window().at(index).stage = send_entry::progress::queued;
      return false;
    case verdict::receiver_not_ready:
      wait_for_receiver(index, what.rnr_timer);
      return true;
    case verdict::no_answer:
      try_again_or_end(index, what.why);
      return true;
    case verdict::peer_gone:
      fail(index, completion_status::remote_invalid_read_request, what.why);
      return true;
    case verdict::local_protection_error:
      fail(index, status_of(what.outcome), window().name_local(index, what.why));
      return true;
    default:
      fail(index, status_of(what.outcome), what.why);
      return true;
  }
}

void srd_requester::wait_for_receiver(std::uint64_t index, std::uint8_t rnr_timer) noexcept {
  const std::uint8_t allowed = self().attributes().rnr_retry;
  if (allowed != unlimited_rnr_retries && delivery_of(index).receiver_retries++ >= allowed)
    return fail(index, completion_status::rnr_retry_exceeded,
                rnr_retries_exceeded(delivery_of(index).to.qpn, allowed, rnr_timer));
  const time_ns now = self().home().now();
  delivery_of(index).give_up_at = now + longest_silence;
  wait_for(index, now + rnr_time(rnr_timer));
}

/// Handles a missing answer.
void srd_requester::try_again_or_end(std::uint64_t index, const failure& why) noexcept {
  const time_ns now = self().home().now();
  if (is_final(why.why))
    fail(index, completion_status::remote_invalid_read_request, why);
  else if (now >= delivery_of(index).give_up_at)
    fail(index, completion_status::response_timeout, given_up(why));
  else
    wait_for(index, now + between_tries);
}

void srd_requester::wait_for(std::uint64_t index, time_ns when) noexcept {
  window().at(index).stage = send_entry::progress::queued;
  delivery_of(index).retry_at = when;
  wait_until(std::min(deadline_, when));
}

/// Delays the first delivery of a request until `when`.
void srd_requester::postpone(std::uint64_t index, time_ns when) noexcept {
  delivery_of(index).give_up_at = when + longest_silence;
  wait_for(index, when);
}

/// Retries requests that are due. Returns true, because other requests may start in any case.
bool srd_requester::wake_up() noexcept {
  const time_ns now = self().home().now();
  if (now < deadline_) {
    self().home().schedule(self(), deadline_);
    return true;
  }
  deadline_ = never;
  const std::uint64_t end = window().submitted();
  for (std::uint64_t i = window().retired(); i < end; ++i) {
    if (window().at(i).stage != send_entry::progress::queued) continue;
    const time_ns due = delivery_of(i).retry_at;
    if (now < due)
      wait_for(i, due);
    else if (!deliver(i))
      wait_for(i, now + short_while);
  }
  return true;
}

/// Applies a fault. Requests have no order, so a delay postpones the delivery.
requester::start_decision srd_requester::apply(send_entry& entry, const fault_rule& rule) noexcept {
  const time_ns now = self().home().now();
  const failure why{.why = reason::injected_fault, .detail = rule.number};
  const std::uint64_t index = window().submitted();
  entry.psn = next_psn_;
  step_psn();
  window().submit_next();
  const std::uint8_t allowed = self().attributes().rnr_retry;
  if (rule.effect == fault_effect::error) {
    fail(index, rule.status, why);
  } else if (rule.effect == fault_effect::delay) {
    postpone(index, now + rule.delay);
  } else if (allowed != unlimited_rnr_retries && rule.repetitions > allowed) {
    fail(index, completion_status::rnr_retry_exceeded, why);
  } else {
    postpone(index, now + rule.repetitions * rnr_time(rule.rnr_timer));
  }
  return start_decision::done;
}

/// Completes a request of the window, even if earlier ones are not done.
void srd_requester::finish(std::uint64_t index) noexcept {
  window().at(index).stage = send_entry::progress::completed;
  window().skip_completed();
  complete(index, window().retired());
}

void srd_requester::fail(std::uint64_t index, completion_status status,
                         const failure& why) noexcept {
  window().at(index).stage = send_entry::progress::completed;
  window().skip_completed();
  window().complete_failed(index, window().retired(), status, why);
}

/// Finds the request in flight to which an answer belongs.
bool srd_requester::find(const request_id& which, std::uint64_t& index) noexcept {
  send_window& requests = window();
  if (requests.empty()) return false;
  index = requests.retired() + ((which.psn - requests.at(requests.retired()).psn) & psn_mask);
  if (index >= requests.submitted() || requests.at(index).stage != send_entry::progress::in_flight)
    return false;
  const delivery& how = delivery_of(index);
  return how.attempt == which.attempt && how.to.qpn == which.from;
}

bool srd_requester::answer(const request_id& which, const response& what) noexcept {
  std::uint64_t index = 0;
  if (!find(which, index)) return false;
  const time_ns now = self().home().now();
  delivery& how = delivery_of(index);
  switch (what.outcome) {
    case verdict::done:
      how.done_bytes += how.part_bytes;
      how.receiver_retries = 0;
      how.give_up_at = now + longest_silence;
      if (how.done_bytes == window().at(index).byte_count)
        finish(index);
      else if (!deliver(index))
        wait_for(index, now + short_while);
      return true;
    case verdict::blocked:
      wait_for(index, now + short_while);
      return true;
    case verdict::pending:
    case verdict::partial:
    case verdict::unread:
    case verdict::peer_gone:
      fail(index, completion_status::bad_response_error,
           {.why = reason::bad_request, .detail = which.from, .extra = which.psn});
      return true;
    default:
      return settle(index, what);
  }
}

bool srd_requester::place(const request_id& which, std::uint64_t offset,
                          std::span<const std::byte> bytes) noexcept {
  std::uint64_t index = 0;
  if (!find(which, index)) return false;
  const delivery& how = delivery_of(index);
  if (window().at(index).request.opcode != opcode::rdma_read || offset > how.part_bytes ||
      bytes.size() > how.part_bytes - offset)
    return false;
  const failure why = window().place(index, how.done_bytes + offset, bytes);
  if (why.why != reason::none) fail(index, completion_status::local_protection_error, why);
  return true;
}

void srd_requester::process_lost(std::uint32_t slot, const failure& why) noexcept {
  const completion_status status = is_final(why.why)
                                       ? completion_status::remote_invalid_read_request
                                       : completion_status::response_timeout;
  for (std::uint64_t i = window().retired(); i < window().submitted(); ++i) {
    const bool there = slot_of_number(delivery_of(i).to.qpn) == slot;
    if (there && window().at(i).stage == send_entry::progress::in_flight) fail(i, status, why);
  }
}

}  // namespace verbena::softdev
