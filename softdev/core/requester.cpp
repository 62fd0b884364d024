// SPDX-License-Identifier: MIT
// The send queue has three marks: retired_ <= submitted_ <= posted. Between the first two lies the
// window. Every request takes one packet sequence number when a path accepts it.
#include "softdev/core/requester.hpp"

#include <algorithm>
#include <array>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/same_process.hpp"

namespace verbena::softdev {
namespace {

/// How often a request without a timeout looks whether somebody answers.
constexpr time_ns patient_retry = 100'000'000;

completion_opcode completion_opcode_of(opcode op) {
  switch (op) {
    case opcode::rdma_write:
    case opcode::rdma_write_with_imm:
      return completion_opcode::rdma_write;
    case opcode::rdma_read:
      return completion_opcode::rdma_read;
    case opcode::compare_swap:
      return completion_opcode::compare_swap;
    case opcode::fetch_add:
      return completion_opcode::fetch_add;
    default:
      return completion_opcode::send;
  }
}

bool sends_failed(queue_pair_state state) {
  return state == queue_pair_state::error || state == queue_pair_state::sqe;
}

/// What is wrong with the length of a request's local data.
failure check_length(opcode op, std::uint64_t length) {
  if (length > limits::max_message_bytes)
    return {.why = reason::message_too_long, .length = length, .limit = limits::max_message_bytes};
  if (is_atomic(op) && length < 8) return {.why = reason::atomic_length, .length = length};
  return {};
}

}  // namespace

requester::requester(queue_pair& self, std::uint32_t wr_count, std::uint32_t max_sges,
                     std::uint32_t max_inline_bytes, std::size_t extra_bytes)
    : self_(self), queue_(wr_count, max_sges, max_inline_bytes, extra_bytes) {}

message requester::message_of(const send_request& request, std::uint32_t psn,
                              std::uint64_t length) noexcept {
  return {.opcode = request.opcode,
          .solicited = request.flags.contains(send_flag::solicited),
          .psn = psn,
          .immediate = request.immediate,
          .length = static_cast<std::uint32_t>(length),
          .remote_key = request.remote_key,
          .remote_address = request.remote_address,
          .compare_or_add = request.compare_or_add,
          .swap = request.swap};
}

void requester::begin(std::uint32_t send_psn) noexcept { next_psn_ = send_psn; }

void requester::clear() noexcept {
  retired_ = submitted_ = queue_.posted();
  if (faults_) faults_->forget();
  queue_.clear();
  reads_in_flight_ = 0;
  ++attempt_;
  receiver_retries_ = answer_retries_ = 0;
  waiting_ = wait::none;
  drain_event_ = false;
  reopen();
  deadline_ = patience_ = never;
}

void requester::recover() noexcept {
  reopen();
  patience_ = never;
}

void requester::run() noexcept {
  retire();
  if (!ready()) return;
  while (submitted_ < queue_.posted() && gate_ != gate::closed && may_send()) {
    send_entry& entry = queue_.at(submitted_);
    if (!may_start(entry)) break;
    if (gate_ == gate::inspected) {
      const admission admitted = inspect(entry);
      if (admitted == admission::stop) break;
      if (admitted == admission::done) continue;
    }
    if (!start(entry)) break;
    retire();
  }
  retire();
  if (sends_failed(self_.state())) flush();
  if (drain_event_) report_drained();
}

/// False when nothing can be done now: flushed, or waiting for a time that has not come.
bool requester::ready() noexcept {
  if (sends_failed(self_.state())) {
    flush();
    return false;
  }
  if (waiting_ == wait::none) return true;
  if (waiting_ == wait::deliveries) {
    retry_deliveries();
    return true;
  }
  if (self_.home().now() < deadline_) {
    self_.home().schedule(self_, deadline_);
    return false;
  }
  if (waiting_ == wait::answer && self_.attributes().timeout != 0) {
    if (answer_retries_ >= self_.attributes().retry_count) {
      give_up();
      return true;
    }
    ++answer_retries_;
  }
  waiting_ = wait::none;
  deadline_ = never;
  return true;
}

/// The request at the head got no answer within its time.
void requester::give_up() noexcept {
  waiting_ = wait::none;
  deadline_ = never;
  failure why = failure_;
  why.length = acknowledgement_timeout(self_.attributes().timeout);
  why.limit = answer_retries_;
  end(queue_.at(submitted_), completion_status::retry_exceeded, why);
}

/// In SQD a request that was sent before is still retried; no other one is sent (IBTA 10.3.1.5).
bool requester::may_send() const noexcept {
  const queue_pair_state now = self_.state();
  return now == queue_pair_state::rts || (now == queue_pair_state::sqd && submitted_ < begun_);
}

bool requester::may_start(const send_entry& entry) const noexcept {
  if (reads_in_flight_ == 0) return true;
  if (entry.request.flags.contains(send_flag::fence)) return false;
  return !is_read_or_atomic(entry.request.opcode) ||
         reads_in_flight_ < self_.attributes().max_rd_atomic;
}

/// Hands the request at `submitted_` to its path. False when the queue stops here for now.
bool requester::start(send_entry& entry) noexcept {
  if (self_.transport() != transport::rc)
    return is_reliable(self_.transport()) ? start_delivery(entry) : start_unreliable(entry);
  const send_request& request = entry.request;
  if (is_read_or_atomic(request.opcode) && self_.attributes().max_rd_atomic == 0) {
    end(entry, completion_status::local_qp_operation_error,
        {.why = reason::no_read_depth,
         .detail = self_.number(),
         .extra = static_cast<std::uint32_t>(request.opcode)});
    return false;
  }
  std::array<segment, limits::max_sges> pieces;
  failure why;
  const std::size_t count = gather(submitted_, pieces, why);
  if (why.why != reason::none) {
    end(entry, completion_status::local_protection_error, why);
    return false;
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < count; ++i) length += pieces[i].bytes;
  why = check_length(request.opcode, length);
  if (why.why != reason::none) {
    end(entry, completion_status::local_length_error, why);
    return false;
  }
  if (is_atomic(request.opcode)) length = 8;
  entry.byte_count = static_cast<std::uint32_t>(length);
  entry.psn = next_psn_;
  entry.stage = send_entry::progress::in_flight;
  return settle(entry, send(message_of(request, next_psn_, length), {pieces.data(), count}));
}

/// Checks the local data of a request and lists its pieces without empty ones.
std::size_t requester::gather(std::uint64_t index, std::span<segment> out, failure& why) noexcept {
  const send_entry& entry = queue_.at(index);
  if (entry.request.flags.contains(send_flag::inline_data)) {
    out[0] = {queue_.payload(index), entry.inline_bytes};
    return entry.inline_bytes > 0 ? 1 : 0;
  }
  const access_flags needed =
      is_read_or_atomic(entry.request.opcode) ? access_flags(access::local_write) : access_flags();
  std::size_t count = 0;
  for (const sge& one : queue_.sges(index)) {
    if (one.length == 0) continue;
    std::byte* data = self_.home().regions().check_local(
        {one.lkey, one.address, one.length, needed, self_.domain()}, why);
    if (data == nullptr) return 0;
    out[count++] = {data, one.length};
  }
  return count;
}

/// Replaces the address of a piece that is not accessible by its scatter/gather element.
failure requester::name_local(std::uint64_t index, const failure& why) noexcept {
  if (why.why != reason::local_not_mapped) return why;
  for (const sge& one : queue_.sges(index)) {
    failure ignored;
    const auto first = reinterpret_cast<std::uint64_t>(self_.home().regions().check_local(
        {one.lkey, one.address, one.length, {}, self_.domain()}, ignored));
    if (first == 0 || why.address - first >= one.length) continue;
    return {.why = why.why, .key = one.lkey, .address = one.address, .length = one.length};
  }
  return why;
}

response requester::send(const message& request, std::span<const segment> local) noexcept {
  const queue_pair_attributes& attributes = self_.attributes();
  engine& home = self_.home();
  message what = request;
  what.attempt = attempt_;
  what.source_qpn = self_.number();
  what.destination_qpn = attributes.destination_qpn;
  what.partition = home.port().partition(attributes.pkey_index);
  what.destination_lid = attributes.destination_lid;
  const auto nobody = [&](reason why) {
    return response{.outcome = verdict::no_answer,
                    .why = {.why = why, .detail = attributes.destination_qpn}};
  };
  if (!home.port().up()) return nobody(reason::port_down);
  if (!attributes.destination_is_this_host) return nobody(reason::peer_unreachable);
  if (home.is_local(what.destination_qpn)) {
    queue_pair* target = home.find(what.destination_qpn);
    if (target == nullptr) return nobody(reason::peer_unknown);
    return execute_in_process(*target, what, local);
  }
  remote_path* remote = home.remote();
  if (remote == nullptr) return nobody(reason::peer_unreachable);
  return remote->submit(self_, what, local, window_empty());
}

/// Takes the path's word about the request at `submitted_`. False when the queue stops here.
bool requester::settle(send_entry& entry, const response& what) noexcept {
  if (what.outcome != verdict::blocked) begun_ = std::max(begun_, submitted_ + 1);
  switch (what.outcome) {
    case verdict::done:
      entry.stage = entry.settled;
      receiver_retries_ = answer_retries_ = 0;
      break;
    case verdict::pending:
      if (is_read_or_atomic(entry.request.opcode)) ++reads_in_flight_;
      break;
    case verdict::partial:
      return false;  // in flight, but not past the mark: `start` comes here again
    case verdict::blocked:
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
      end(entry, status_of(what.outcome), name_local(submitted_, what.why));
      return false;
  }
  if (!what.direct) next_psn_ = (next_psn_ + 1) & psn_mask;
  ++submitted_;
  return true;
}

/// A request of the window, or the one at `submitted_`, failed for good.
void requester::end(send_entry& entry, completion_status status, const failure& why) noexcept {
  entry.stage = send_entry::progress::done;
  entry.status = status;
  failure_ = why;
  gate_ = gate::closed;
  if (submitted_ < queue_.posted() && &entry == &queue_.at(submitted_)) ++submitted_;
}

void requester::wait_for_receiver(send_entry& entry, const response& what) noexcept {
  const std::uint8_t allowed = self_.attributes().rnr_retry;
  if (allowed != 7 && receiver_retries_ >= allowed) {
    const failure refused{.why = reason::receiver_not_ready,
                          .key = self_.attributes().destination_qpn,
                          .length = rnr_time(what.rnr_timer),
                          .detail = receiver_retries_,
                          .extra = std::uint32_t{what.rnr_timer}};
    const bool injected = what.why.why == reason::injected_fault;
    end(entry, completion_status::rnr_retry_exceeded, injected ? what.why : refused);
    return;
  }
  if (allowed != 7) ++receiver_retries_;
  answer_retries_ = 0;
  wait_until(wait::receiver, self_.home().now() + rnr_time(what.rnr_timer));
}

void requester::wait_for_answer(const failure& why) noexcept {
  failure_ = why;
  const std::uint8_t code = self_.attributes().timeout;
  wait_until(wait::answer,
             self_.home().now() + (code == 0 ? patient_retry : acknowledgement_timeout(code)));
}

void requester::wait_until(wait what, time_ns when) noexcept {
  waiting_ = what;
  deadline_ = when;
  self_.home().schedule(self_, when);
}

void requester::retry_now() noexcept {
  if (waiting_ != wait::answer) return;
  waiting_ = wait::none;
  deadline_ = never;
}

/// The request in flight with that number; the one at `submitted_` counts when it is partial.
send_entry* requester::in_flight(std::uint32_t psn, std::uint16_t attempt,
                                 std::uint64_t& index) noexcept {
  if (attempt != attempt_ || idle()) return nullptr;
  index = retired_ + ((psn - queue_.at(retired_).psn) & psn_mask);
  if (index > submitted_ || index >= queue_.posted()) return nullptr;
  send_entry& entry = queue_.at(index);
  if (entry.psn != psn || entry.stage != send_entry::progress::in_flight) return nullptr;
  return &entry;
}

void requester::finish_in_flight(send_entry& entry) noexcept {
  const bool counted =
      entry.stage == send_entry::progress::in_flight && is_read_or_atomic(entry.request.opcode);
  if (counted) --reads_in_flight_;
  entry.stage = entry.settled;
}

/// An answer answers the sends and writes before it, too. False when a read or atomic before it has
/// no answer, which a correct peer does not let happen.
bool requester::finish_earlier(std::uint64_t index) noexcept {
  for (std::uint64_t i = retired_; i < index; ++i) {
    send_entry& earlier = queue_.at(i);
    if (earlier.stage != send_entry::progress::in_flight) continue;
    finish_in_flight(earlier);
    if (!is_read_or_atomic(earlier.request.opcode)) continue;
    end(earlier, completion_status::bad_response_error,
        {.why = reason::bad_request,
         .detail = self_.attributes().destination_qpn,
         .extra = earlier.psn});
    return false;
  }
  return true;
}

bool requester::answer(std::uint32_t psn, std::uint16_t attempt, const response& what) noexcept {
  std::uint64_t index = 0;
  send_entry* entry = in_flight(psn, attempt, index);
  if (entry == nullptr) {
    ++ignored_answers_;
    return false;
  }
  if (!finish_earlier(index)) return true;
  const bool whole = index < submitted_;
  switch (what.outcome) {
    case verdict::done:
      if (!whole) break;
      if (is_atomic(entry->request.opcode))
        place(psn, attempt, 0, std::as_bytes(std::span(&what.original, 1)));
      if (entry->stage == send_entry::progress::done) return true;  // the result had no place
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
    default:
      break;
  }
  if (whole) finish_in_flight(*entry);
  end(*entry, status_of(what.outcome), what.why);
  return true;
}

bool requester::place(std::uint32_t psn, std::uint16_t attempt, std::uint64_t offset,
                      std::span<const std::byte> bytes) noexcept {
  std::uint64_t index = 0;
  send_entry* entry = in_flight(psn, attempt, index);
  if (entry == nullptr || !is_read_or_atomic(entry->request.opcode) || index >= submitted_ ||
      offset > entry->byte_count || bytes.size() > entry->byte_count - offset) {
    ++ignored_answers_;
    return false;
  }
  std::array<segment, limits::max_sges> sinks;
  failure why;
  const std::size_t count = gather(index, sinks, why);
  if (why.why == reason::none) {
    const auto [fault, piece] = scatter({sinks.data(), count}, offset, bytes);
    if (fault == copy_fault::none) return true;
    why = name_local(index, local_fault(piece).why);
  }
  finish_in_flight(*entry);
  end(*entry, completion_status::local_protection_error, why);
  run();  // the answer, which comes later, finds no request that it could end
  return true;
}

void requester::peer_lost(const failure& why) noexcept {
  release_all_held();
  if (idle()) return;
  // Also when a later request failed already: that one waits for this to be answered.
  send_entry& oldest = queue_.at(retired_);
  if (oldest.stage == send_entry::progress::done) return;
  if (retired_ < submitted_) finish_in_flight(oldest);
  end(oldest, completion_status::retry_exceeded, why);
  waiting_ = wait::none;
  deadline_ = never;
}

/// Takes the requests from `index` on out of flight; they will be submitted again. If one of them
/// failed locally meanwhile, that is forgotten: it will fail again.
void requester::rewind_to(std::uint64_t index) noexcept {
  next_psn_ = queue_.at(index).psn;
  ++attempt_;
  const std::uint64_t end = submitted_ < queue_.posted() ? submitted_ + 1 : submitted_;
  for (std::uint64_t i = index; i < end; ++i) {
    send_entry& entry = queue_.at(i);
    const bool counted = i < submitted_ && entry.stage == send_entry::progress::in_flight &&
                         is_read_or_atomic(entry.request.opcode);
    if (counted) --reads_in_flight_;
    entry.stage = send_entry::progress::queued;
    entry.status = completion_status::success;
  }
  submitted_ = index;
  reopen();
}

void requester::retire() noexcept {
  while (retired_ < submitted_) {
    const send_entry& entry = queue_.at(retired_);
    if (entry.stage != send_entry::progress::done) return;
    complete(retired_++);
    if (entry.status != completion_status::success) return;
  }
}

void requester::complete(std::uint64_t index) noexcept {
  const send_entry& entry = queue_.at(index);
  if (entry.status == completion_status::success) {
    if (self_.options().signal_all || entry.request.flags.contains(send_flag::signaled))
      push(index, index + 1, entry.status, reason::none);
    return;
  }
  self_.home().failures().record(self_.number(), entry.request.wr_id, failure_);
  push(index, index + 1, entry.status, failure_.why);
  self_.fail_sends();
}

void requester::push(std::uint64_t index, std::uint64_t released, completion_status status,
                     reason why) noexcept {
  const send_entry& entry = queue_.at(index);
  const bool kept =
      self_.options().send_queue->push({.wr_id = entry.request.wr_id,
                                        .status = status,
                                        .opcode = completion_opcode_of(entry.request.opcode),
                                        .byte_count = entry.byte_count,
                                        .qp_num = self_.number(),
                                        .vendor_error = static_cast<std::uint32_t>(why)},
                                       {&queue_.released(), released}, false);
  if (!kept && self_.fail()) self_.home().report(self_, queue_pair_event::fatal);
}

void requester::flush() noexcept {
  const reason why = self_.flush_reason();
  if (self_.transport() == transport::srd) flush_deliveries(why);
  for (; retired_ < queue_.posted(); ++retired_)
    push(retired_, retired_ + 1, completion_status::flushed, why);
  submitted_ = retired_;
  reads_in_flight_ = 0;
  ++attempt_;
  waiting_ = wait::none;
  deadline_ = never;
  drain_event_ = false;
  if (faults_) faults_->forget();
}

void requester::notify_when_drained() noexcept {
  drain_event_ = true;
  report_drained();
}

void requester::report_drained() noexcept {
  if (self_.state() != queue_pair_state::sqd || draining()) return;
  drain_event_ = false;
  self_.home().report(self_, queue_pair_event::send_queue_drained);
}

}  // namespace verbena::softdev
