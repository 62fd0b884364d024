// SPDX-License-Identifier: MIT
// Requests over SRD. Those between retired_ and submitted_ are in flight, done, or queued, which
// here means that they wait for their time; the others do not wait for them. They complete in the
// order in which they end. A request that fails leaves the queue pair as it is, as on EFA.
#include <algorithm>
#include <array>

#include "softdev/core/engine.hpp"
#include "softdev/core/process_slot.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/requester.hpp"
#include "softdev/core/same_process.hpp"

namespace verbena::softdev {
namespace {

/// How long a request waits for a queue pair or a process that does not answer.
constexpr time_ns longest_silence = 1'000'000'000;
constexpr time_ns between_tries = 1'000'000;
/// When a path that had no room is asked again, unless it says before that it has.
constexpr time_ns short_while = 50'000;

/// Drops `bytes` from the front of what `pieces` make up.
std::span<const segment> without_front(std::span<segment> pieces, std::uint64_t bytes) noexcept {
  while (!pieces.empty() && bytes >= pieces.front().bytes) {
    bytes -= pieces.front().bytes;
    pieces = pieces.subspan(1);
  }
  if (bytes > 0 && !pieces.empty()) {
    pieces.front().data += bytes;
    pieces.front().bytes -= bytes;
  }
  return pieces;
}

/// True when it is no use to try again: there is no queue pair of that number that takes this.
bool is_final(reason why) noexcept {
  return why == reason::peer_unknown || why == reason::peer_gone ||
         why == reason::transport_mismatch || why == reason::qkey_mismatch;
}

/// Adds the time after which a request without an answer ends; its attempts are not counted.
failure given_up(failure why) noexcept {
  why.length = longest_silence;
  why.limit = never;
  return why;
}

}  // namespace

/// Takes the request at `submitted_` into the window. False when its path has no room now.
bool requester::start_delivery(send_entry& entry) noexcept {
  const std::uint64_t index = submitted_;
  entry.psn = next_psn_;
  delivery_of(index).give_up_at = self_.home().now() + longest_silence;
  ++submitted_;
  if (!deliver(index)) {
    --submitted_;
    return false;
  }
  next_psn_ = (next_psn_ + 1) & psn_mask;
  return true;
}

/// Hands what is left of a request of the window to its path. False when that has no room.
bool requester::deliver(std::uint64_t index) noexcept {
  send_entry& entry = queue_.at(index);
  delivery& how = delivery_of(index);
  const auto fails = [&](completion_status status, const failure& why) {
    end_delivery(index, status, why);
    return true;
  };
  if (!how.to.known)
    return fails(completion_status::local_qp_operation_error,
                 {.why = reason::no_address, .detail = self_.number()});
  std::array<segment, limits::max_sges> pieces;
  failure why;
  const std::size_t count = gather(index, pieces, why);
  if (why.why != reason::none) return fails(completion_status::local_protection_error, why);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < count; ++i) length += pieces[i].bytes;
  const std::uint64_t most = is_send(entry.request.opcode) ? limits::max_reliable_datagram_bytes
                                                           : limits::max_message_bytes;
  if (length > most)
    return fails(completion_status::local_length_error,
                 {.why = reason::message_too_long, .length = length, .limit = most});
  entry.byte_count = static_cast<std::uint32_t>(length);
  entry.stage = send_entry::progress::in_flight;
  how.attempt = ++attempt_;
  message what = message_of(entry.request, entry.psn, length - how.done_bytes);
  what.transport = self_.transport();
  what.attempt = how.attempt;
  what.source_qpn = self_.number();
  what.destination_qpn = how.to.qpn;
  what.partition = self_.home().port().partition(self_.attributes().pkey_index);
  what.destination_lid = how.to.address.lid();
  what.qkey = how.to.key_of(self_.attributes().qkey);
  what.remote_address += how.done_bytes;
  return settle_delivery(
      index, send_delivery(what, without_front({pieces.data(), count}, how.done_bytes)));
}

response requester::send_delivery(message& what, std::span<const segment> local) noexcept {
  engine& home = self_.home();
  const auto nobody = [&](reason why) {
    return response{.outcome = verdict::no_answer,
                    .why = {.why = why, .detail = what.destination_qpn}};
  };
  if (!home.port().up()) return nobody(reason::port_down);
  if (home.is_local(what.destination_qpn)) {
    queue_pair* target = home.find(what.destination_qpn);
    if (target == nullptr) return nobody(reason::peer_unknown);
    what.origin.lid = target->sender_number();
    return execute_in_process(*target, what, local);
  }
  remote_path* remote = home.remote();
  if (remote == nullptr) return nobody(reason::peer_unreachable);
  return remote->submit(self_, what, local, true);
}

/// Takes the word of a path, or of the responder, about a request of the window. False when the
/// path had no room.
bool requester::settle_delivery(std::uint64_t index, const response& what) noexcept {
  send_entry& entry = queue_.at(index);
  delivery& how = delivery_of(index);
  switch (what.outcome) {
    case verdict::done:
      end_delivery(index, completion_status::success, {});
      return true;
    case verdict::pending:
      how.part_bytes = what.original;
      return true;
    case verdict::blocked:
    case verdict::partial:
      entry.stage = send_entry::progress::queued;
      return false;
    case verdict::receiver_not_ready: {
      const std::uint8_t allowed = self_.attributes().rnr_retry;
      if (allowed != 7 && how.receiver_retries++ >= allowed) {
        end_delivery(index, completion_status::rnr_retry_exceeded,
                     {.why = reason::receiver_not_ready,
                      .key = how.to.qpn,
                      .length = rnr_time(what.rnr_timer),
                      .detail = allowed,
                      .extra = std::uint32_t{what.rnr_timer}});
        return true;
      }
      const time_ns now = self_.home().now();
      how.give_up_at = now + longest_silence;
      wait_for_delivery(index, now + rnr_time(what.rnr_timer));
      return true;
    }
    case verdict::no_answer:
      try_again_or_end(index, what.why);
      return true;
    case verdict::peer_gone:
      end_delivery(index, completion_status::remote_invalid_read_request, what.why);
      return true;
    case verdict::local_protection_error:
      end_delivery(index, status_of(what.outcome), name_local(index, what.why));
      return true;
    default:
      end_delivery(index, status_of(what.outcome), what.why);
      return true;
  }
}

/// Nobody answered.
void requester::try_again_or_end(std::uint64_t index, const failure& why) noexcept {
  const time_ns now = self_.home().now();
  if (is_final(why.why))
    end_delivery(index, completion_status::remote_invalid_read_request, why);
  else if (now >= delivery_of(index).give_up_at)
    end_delivery(index, completion_status::response_timeout, given_up(why));
  else
    wait_for_delivery(index, now + between_tries);
}

void requester::wait_for_delivery(std::uint64_t index, time_ns when) noexcept {
  queue_.at(index).stage = send_entry::progress::queued;
  delivery_of(index).retry_at = when;
  waiting_ = wait::deliveries;
  deadline_ = std::min(deadline_, when);
  self_.home().schedule(self_, deadline_);
}

/// Delivers a request that did not start at `when`.
void requester::postpone_delivery(std::uint64_t index, time_ns when) noexcept {
  delivery_of(index).give_up_at = when + longest_silence;
  wait_for_delivery(index, when);
}

void requester::retry_deliveries() noexcept {
  const time_ns now = self_.home().now();
  if (now < deadline_) return self_.home().schedule(self_, deadline_);
  waiting_ = wait::none;
  deadline_ = never;
  const std::uint64_t end = submitted_;
  for (std::uint64_t i = retired_; i < end; ++i) {
    if (queue_.at(i).stage != send_entry::progress::queued) continue;
    const time_ns due = delivery_of(i).retry_at;
    if (now < due)
      wait_for_delivery(i, due);
    else if (!deliver(i))
      wait_for_delivery(i, now + short_while);
  }
}

/// Completes a request of the window, whether or not those before it are done.
void requester::end_delivery(std::uint64_t index, completion_status status,
                             const failure& why) noexcept {
  send_entry& entry = queue_.at(index);
  entry.stage = send_entry::progress::done;
  entry.status = status;
  while (retired_ < submitted_ && queue_.at(retired_).stage == send_entry::progress::done)
    ++retired_;
  if (status != completion_status::success)
    self_.home().failures().record(self_.number(), entry.request.wr_id, why);
  else if (!self_.options().signal_all && !entry.request.flags.contains(send_flag::signaled))
    return;
  push(index, retired_, status, why.why);
}

/// Completes what is not done. Also sets `retired_` to the end.
void requester::flush_deliveries(reason why) noexcept {
  const auto is_done = [this](std::uint64_t index) {
    return index < submitted_ && queue_.at(index).stage == send_entry::progress::done;
  };
  while (retired_ < queue_.posted()) {
    const std::uint64_t index = retired_++;
    while (retired_ < queue_.posted() && is_done(retired_)) ++retired_;
    push(index, retired_, completion_status::flushed, why);
  }
}

/// The request in flight that an answer is about.
bool requester::find_delivery(const delivery_part& part, std::uint64_t& index) noexcept {
  if (!window_empty()) {
    index = retired_ + ((part.psn - queue_.at(retired_).psn) & psn_mask);
    if (index < submitted_ && queue_.at(index).stage == send_entry::progress::in_flight) {
      const delivery& how = delivery_of(index);
      if (how.attempt == part.attempt && how.to.qpn == part.from) return true;
    }
  }
  ++ignored_answers_;
  return false;
}

bool requester::answer_delivery(const delivery_part& part, const response& what) noexcept {
  std::uint64_t index = 0;
  if (!find_delivery(part, index)) return false;
  const time_ns now = self_.home().now();
  delivery& how = delivery_of(index);
  switch (what.outcome) {
    case verdict::done:
      how.done_bytes += how.part_bytes;
      how.receiver_retries = 0;
      how.give_up_at = now + longest_silence;
      if (how.done_bytes == queue_.at(index).byte_count)
        end_delivery(index, completion_status::success, {});
      else if (!deliver(index))
        wait_for_delivery(index, now + short_while);
      return true;
    case verdict::blocked:
      wait_for_delivery(index, now + short_while);
      return true;
    case verdict::pending:
    case verdict::partial:
    case verdict::peer_gone:
      end_delivery(index, completion_status::bad_response_error,
                   {.why = reason::bad_request, .detail = part.from, .extra = part.psn});
      return true;
    default:
      return settle_delivery(index, what);
  }
}

bool requester::place_delivery(const delivery_part& part, std::uint64_t offset,
                               std::span<const std::byte> bytes) noexcept {
  std::uint64_t index = 0;
  if (!find_delivery(part, index)) return false;
  const delivery& how = delivery_of(index);
  if (queue_.at(index).request.opcode != opcode::rdma_read || offset > how.part_bytes ||
      bytes.size() > how.part_bytes - offset) {
    ++ignored_answers_;
    return false;
  }
  std::array<segment, limits::max_sges> sinks;
  failure why;
  const std::size_t count = gather(index, sinks, why);
  if (why.why == reason::none) {
    const auto [fault, piece] = scatter({sinks.data(), count}, how.done_bytes + offset, bytes);
    if (fault == copy_fault::none) return true;
    why = name_local(index, local_fault(piece).why);
  }
  end_delivery(index, completion_status::local_protection_error, why);
  return true;
}

void requester::process_lost(std::uint32_t slot, const failure& why) noexcept {
  const completion_status status = is_final(why.why)
                                       ? completion_status::remote_invalid_read_request
                                       : completion_status::response_timeout;
  for (std::uint64_t i = retired_; i < submitted_; ++i) {
    const bool there = slot_of_number(delivery_of(i).to.qpn) == slot;
    if (there && queue_.at(i).stage == send_entry::progress::in_flight)
      end_delivery(i, status, why);
  }
}

}  // namespace verbena::softdev
