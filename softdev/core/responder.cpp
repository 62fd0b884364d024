// SPDX-License-Identifier: MIT
// Order of the checks (IBTA 9.7.4.1): connection, sequence, rights of the queue pair, resources,
// receive request, key and range. A receive request counts as consumed when it is completed, so an
// RNR answer does not change the receive queue.
#include "softdev/core/responder.hpp"

#include <algorithm>

#include "softdev/core/atomic.hpp"
#include "softdev/core/copy.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/responder_checks.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {
namespace {

std::uint64_t room_of(std::span<const sge> sinks) noexcept {
  std::uint64_t room = 0;
  for (const sge& one : sinks) room += one.length;
  return room;
}

}  // namespace

responder::responder(queue_pair& self, const queue_pair_options& options, std::byte* memory)
    : self_(self), shared_(options.shared_receives), queue_(receive_queue_sizes(options), memory) {}

void responder::start(std::uint32_t receive_psn) noexcept {
  expected_psn_ = receive_psn;
  established_.store(false, std::memory_order_relaxed);
}

const transport_rules& responder::rules() const noexcept { return rules_of(self_.transport()); }

void responder::clear() noexcept {
  consumed_ = queue_.posted();
  queue_.clear();
  busy_ = receive_taken_ = reported_last_ = false;
}

response responder::begin(const message& what) noexcept {
  const responder_view self = view();
  if (connection_refusal(self, what) != reason::none) {
    const failure foreign = check_connection(self, what);
    self_.home().port().note_drop(foreign.why);
    return silence(foreign);
  }
  if (awaits_first_request()) {
    established_.store(true, std::memory_order_relaxed);
    if (rules().connected && self_.state() == queue_pair_state::rtr) {
      self_.report(queue_pair_event::communication_established);
      // From now on, peers may execute requests themselves.
      auto* const remote = self_.home().remote();
      if (remote != nullptr && self_.attributes().path_to_peer == path_to_peer::same_host)
        remote->changed(self_, false);
    }
  }
  current_ = &what;
  placed_ = 0;
  receive_taken_ = false;
  busy_ = true;
  if (permission_refusal(self, what) != reason::none) return refuse(check_permission(self, what));
  if (consumes_receive(what.opcode)) {
    response answer = take_receive();
    if (answer.outcome != verdict::done) {
      busy_ = false;
      return answer;
    }
  }
  if (!accesses_region(what)) return {};
  segment first;
  return reach(0, what.length, first);
}

void responder::keep() noexcept {
  if (!busy_ || current_ == &kept_) return;
  kept_ = *current_;
  current_ = &kept_;
}

/// Returns `no_answer`. On transports without acknowledgements, counts the message as dropped.
response responder::silence(const failure& why) const noexcept {
  if (!rules().acknowledged) self_.diagnosis().drops.note(why);
  return {.outcome = verdict::no_answer, .why = why};
}

responder_view responder::view() const noexcept {
  const queue_pair_attributes& attributes = self_.attributes();
  const port_state& port = self_.home().port();
  return {.number = self_.number(),
          .domain = self_.domain(),
          .state = self_.state(),
          .transport = self_.transport(),
          .port_is_up = port.up(attributes.port),
          .lid = port.lid(),
          .pkey = port.pkey(attributes.pkey_index),
          .qkey = attributes.qkey,
          .destination_qpn = attributes.destination_qpn,
          .expected_psn = expected_psn_,
          .access = attributes.rights,
          .has_read_resources = attributes.max_dest_rd_atomic != 0};
}

response responder::refuse_misaligned() noexcept {
  return refuse({.outcome = verdict::invalid_request,
                 .why = {.why = reason::atomic_misaligned, .address = current_->remote_address}});
}

/// Checks `bytes` of the remote range from `offset` on and sets `out` to their memory.
response responder::reach(std::uint64_t offset, std::uint64_t bytes, segment& out) noexcept {
  failure why;
  std::byte* data =
      self_.home().regions().check_remote({current_->remote_key, current_->remote_address + offset,
                                           bytes, access_needed(current_->opcode), self_.domain()},
                                          why);
  if (data == nullptr) return refuse({.outcome = verdict::access_error, .why = why});
  out = {data, bytes};
  return {};
}

/// Returns whether there is a receive request at the head; if necessary, takes one from the shared
/// queue. A receive request of a message that began again is still at the head.
bool responder::has_receive() noexcept {
  if (consumed_ != queue_.posted()) return true;
  return shared_ != nullptr && shared_->take(queue_);
}

response responder::take_receive() noexcept {
  if (!has_receive()) return no_receive();
  receive_taken_ = true;
  sge_index_ = 0;
  sge_offset_ = 0;
  if (!is_send(current_->opcode)) return {};
  const std::uint64_t room = room_of(queue_.sges(consumed_));
  return current_->length <= room ? response{} : refuse_length(room);
}

/// Refuses a SEND that is longer than the receive request.
response responder::refuse_length(std::uint64_t room) noexcept {
  const failure mine{.why = reason::receive_too_short, .length = current_->length, .limit = room};
  // If the message is dropped, the receive request stays for the next one.
  if (rules().refused == refusal_effect::drops_message) return silence(mine);
  failure theirs = mine;
  theirs.why = reason::peer_receive_too_short;
  if (rules().refused == refusal_effect::fails_responder)
    complete_receive(completion_status::local_length_error, mine);
  return refuse({.outcome = verdict::invalid_request, .why = theirs});
}

response responder::no_receive() noexcept {
  const failure why{.why = reason::receiver_not_ready, .key = self_.number()};
  if (!rules().acknowledged) return silence(why);
  return {.outcome = verdict::receiver_not_ready,
          .rnr_timer = self_.attributes().min_rnr_timer,
          .why = why};
}

response responder::place(std::span<const std::byte> bytes) noexcept {
  if (!busy_ || bytes.size() > current_->length - placed_)
    return refuse({.outcome = verdict::invalid_request,
                   .why = {.why = reason::bad_request, .length = bytes.size()}});
  if (bytes.empty()) return {};
  if (is_send(current_->opcode)) return scatter_to_receive(bytes);
  segment to{nullptr, 0};
  response answer = reach(placed_, bytes.size(), to);
  if (answer.outcome != verdict::done) return answer;
  const copy_fault fault = copy_payload(to.data, bytes.data(), bytes.size());
  if (fault == copy_fault::source) return interrupt(bytes.data());
  if (fault == copy_fault::sink) return refuse_unmapped(placed_, bytes.size());
  placed_ += bytes.size();
  return answer;
}

response responder::scatter_to_receive(std::span<const std::byte> bytes) noexcept {
  const std::span<const sge> sinks = queue_.sges(consumed_);
  const domain_id domain = shared_ != nullptr ? shared_->domain() : self_.domain();
  while (!bytes.empty()) {
    const sge& sink = sinks[sge_index_];
    const auto part = std::min<std::uint64_t>(sink.length - sge_offset_, bytes.size());
    if (part == 0) {
      ++sge_index_;
      sge_offset_ = 0;
      continue;
    }
    failure why;
    std::byte* to = self_.home().regions().check_local(
        {sink.lkey, sink.address + sge_offset_, part, access::local_write, domain}, why);
    if (to == nullptr) return refuse_receive(why);
    const copy_fault fault = copy_payload(to, bytes.data(), part);
    if (fault == copy_fault::source) return interrupt(bytes.data());
    if (fault == copy_fault::sink)
      return refuse_receive({.why = reason::local_not_mapped,
                             .key = sink.lkey,
                             .address = sink.address + sge_offset_,
                             .length = part});
    bytes = bytes.subspan(part);
    sge_offset_ += static_cast<std::uint32_t>(part);
    placed_ += part;
  }
  return {};
}

/// Refuses a message whose receive request names memory that it may not write.
response responder::refuse_receive(const failure& why) noexcept {
  complete_receive(completion_status::local_protection_error, why);
  failure theirs = why;
  theirs.why = reason::peer_receive_invalid;
  return refuse({.outcome = verdict::operation_error, .why = theirs});
}

response responder::read(std::uint64_t offset, std::uint64_t bytes, segment& out) noexcept {
  if (!busy_ || current_->opcode != opcode::rdma_read || offset > current_->length ||
      bytes > current_->length - offset)
    return refuse({.outcome = verdict::invalid_request, .why = {.why = reason::bad_request}});
  if (bytes == 0) {
    out = {nullptr, 0};
    return {};
  }
  return reach(offset, bytes, out);
}

response responder::refuse_unmapped(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return refuse(unmapped(*current_, offset, bytes));
}

response responder::lengthen(std::uint32_t bytes) noexcept {
  const std::uint64_t room =
      std::min<std::uint64_t>(room_of(queue_.sges(consumed_)), limits::max_message_bytes);
  // The length has 32 bits, and the number of packets that a peer sends is not limited.
  const bool fits = kept_.length + std::uint64_t{bytes} <= room;
  kept_.length += bytes;
  return fits ? response{} : refuse_length(room);
}

response responder::add_immediate(std::uint32_t immediate) noexcept {
  if (!receive_taken_) {
    response answer = take_receive();
    if (answer.outcome != verdict::done) return answer;
  }
  kept_.opcode = with_immediate(kept_.opcode);
  kept_.immediate = immediate;
  return {};
}

response responder::refuse_packet() noexcept {
  return refuse(
      {.outcome = verdict::invalid_request,
       .why = {.why = reason::bad_request, .detail = self_.attributes().destination_qpn}});
}

response responder::read_again(const message& what, std::uint64_t offset, std::uint64_t bytes,
                               segment& out) noexcept {
  out = {nullptr, 0};
  if (bytes == 0) return {};
  failure why;
  std::byte* const data = self_.home().regions().check_remote(
      {what.remote_key, what.remote_address + offset, bytes, access::remote_read, self_.domain()},
      why);
  if (data == nullptr) return {.outcome = verdict::access_error, .why = why};
  out = {data, bytes};
  return {};
}

response responder::unmapped(const message& what, std::uint64_t offset,
                             std::uint64_t bytes) noexcept {
  return {.outcome = verdict::access_error,
          .why = {.why = reason::remote_not_mapped,
                  .key = what.remote_key,
                  .address = what.remote_address + offset,
                  .length = bytes}};
}

void responder::refuse_finished(const response& answer) noexcept {
  receive_taken_ = false;  // of the current request
  static_cast<void>(refuse(answer));
}

response responder::interrupt(const std::byte* piece) noexcept {
  busy_ = receive_taken_ = false;
  return local_fault(piece);
}

response responder::finish() noexcept {
  if (!busy_ || (!is_read_or_atomic(current_->opcode) && placed_ != current_->length))
    return refuse({.outcome = verdict::invalid_request,
                   .why = {.why = reason::bad_request, .length = placed_}});
  if (!is_atomic(current_->opcode)) {
    conclude();
    return {};
  }
  response answer = execute_atomic();
  if (answer.outcome == verdict::done) conclude();
  return answer;
}

/// Ends a message that was executed.
void responder::conclude() noexcept {
  busy_ = false;
  expected_psn_ = (expected_psn_ + 1) & psn_mask;
  if (receive_taken_) complete_receive(completion_status::success, {});
}

response responder::execute_atomic() noexcept {
  segment where{nullptr, 0};
  response answer = reach(0, 8, where);
  if (answer.outcome != verdict::done) return answer;
  switch (softdev::execute_atomic(where.data, *current_, answer.original)) {
    case atomic_outcome::done:
      break;
    case atomic_outcome::misaligned:
      return refuse_misaligned();
    case atomic_outcome::not_mapped:
      return refuse_unmapped(0, 8);
  }
  return answer;
}

/// Ends the request with an error answer: the queue pair fails, with an event for the reason. If
/// the transport has no answers, the message is dropped, unless the queue pair's own receive
/// request is invalid. If the transport only answers, the queue pair continues.
response responder::refuse(const response& answer) noexcept {
  const refusal_effect effect = rules().refused;
  // A WRITE with immediate data violates the protection of the memory here (IBTA 11.6.2).
  if (receive_taken_ && effect == refusal_effect::fails_responder &&
      answer.outcome == verdict::access_error)
    complete_receive(completion_status::local_access_error, answer.why);
  busy_ = receive_taken_ = false;
  if (effect == refusal_effect::drops_message && answer.outcome != verdict::operation_error)
    return silence(answer.why);
  if (effect == refusal_effect::answers_only) return answer;
  if (self_.fail()) {
    const auto event = answer.outcome == verdict::access_error ? queue_pair_event::access_error
                       : answer.outcome == verdict::invalid_request
                           ? queue_pair_event::request_error
                           : queue_pair_event::fatal;
    self_.report(event);
  }
  flush();
  return answer;
}

/// Completes the receive request at the head.
template <class Make>
void responder::push(bool solicited, Make&& make) noexcept {
  ++consumed_;
  const bool kept =
      self_.options().receive_queue->push({&queue_.released(), consumed_}, solicited, make);
  if (!kept && self_.fail()) self_.report(queue_pair_event::fatal);
}

void responder::complete_receive(completion_status status, const failure& why) noexcept {
  const receive_entry& entry = queue_.at(consumed_);
  const bool imm = has_immediate(current_->opcode);
  if (status != completion_status::success)
    self_.home().failures().record(self_.number(), entry.wr_id, why);
  const message& what = *current_;
  push(what.solicited, [&](completion& made) {
    made.wr_id = entry.wr_id;
    made.status = status;
    made.opcode = is_send(what.opcode) ? completion_opcode::receive
                                       : completion_opcode::receive_rdma_with_imm;
    made.flags = static_cast<std::uint8_t>((imm ? completion_with_imm : 0) |
                                           (what.origin.has_grh ? completion_with_grh : 0));
    made.service_level = what.origin.service_level;
    made.byte_count = what.length + what.earlier_bytes;
    made.immediate = imm ? what.immediate : 0;
    made.qp_num = self_.number();
    made.source_qp = what.source_qpn;
    made.vendor_error = static_cast<std::uint32_t>(why.why);
    made.source_lid = rules().numbers_addresses ? sender_number() : what.origin.lid;
    made.path_bits = what.origin.path_bits;
  });
  receive_taken_ = false;
}

std::uint16_t responder::sender_number() const noexcept {
  const auto* const handles = self_.options().addresses;
  return handles != nullptr && handles->load() > 0 ? known_sender : unknown_sender;
}

void responder::flush() noexcept {
  busy_ = receive_taken_ = false;
  const auto why = static_cast<std::uint32_t>(self_.flush_reason());
  while (consumed_ < queue_.posted())
    push(false, [&, id = queue_.at(consumed_).wr_id](completion& made) {
      made = {.wr_id = id,
              .status = completion_status::flushed,
              .opcode = completion_opcode::receive,
              .qp_num = self_.number(),
              .vendor_error = why};
    });
  if (shared_ == nullptr || reported_last_) return;
  reported_last_ = true;
  self_.report(queue_pair_event::last_request_reached);
}

}  // namespace verbena::softdev
