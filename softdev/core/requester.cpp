// SPDX-License-Identifier: MIT
#include "softdev/core/requester.hpp"

#include <utility>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/core/transport/request_extra.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {
namespace {

bool sends_failed(queue_pair_state state) {
  return state == queue_pair_state::error || state == queue_pair_state::sqe;
}

/// Checks the length of a request's local data.
failure check_length(const transport_rules& rules, opcode op, std::uint64_t length) noexcept {
  if (length > rules.longest(op))
    return {.why = reason::message_too_long, .length = length, .limit = rules.longest(op)};
  if (is_atomic(op) && length < 8) return {.why = reason::atomic_length, .length = length};
  return {};
}

}  // namespace

requester::requester(queue_pair& self, const queue_pair_options& options, bool takes_followers,
                     std::byte* memory)
    : self_(self),
      window_(self, send_queue_sizes(options), memory),
      takes_followers_(takes_followers),
      signals_all_(options.signal_all) {}

void requester::run() noexcept {
  go_on();
  if (used_path_ != nullptr) std::exchange(used_path_, nullptr)->end_run(self_);
}

void requester::go_on() noexcept {
  retire();
  if (sends_failed(self_.state())) return flush();
  if (deadline_ != never && !wake_up()) return;
  start_requests();
  retire();
  if (sends_failed(self_.state())) flush();
  if (drain_event_) report_drained();
}

/// Returns whether the next request may be sent. In SQD, only a request that was sent before is
/// retried (IBTA 10.3.1.5).
bool requester::may_send() const noexcept {
  const queue_pair_state now = self_.state();
  return now == queue_pair_state::rts || (now == queue_pair_state::sqd && window_.was_begun());
}

void requester::begin_message(message& what) noexcept {
  const queue_pair_attributes& attributes = self_.attributes();
  what.attempt = attempt_;
  what.pkey = self_.home().port().pkey(attributes.pkey_index);
  what.source_qpn = self_.number();
  what.transport = self_.transport();
  if (!rules_of(what.transport).connected) return;
  what.destination_qpn = attributes.destination_qpn;
  what.destination_lid = attributes.destination_lid;
  what.by = attributes.path_to_peer;
}

requester::local_refusal requester::prepare(std::uint64_t index, outgoing_request& out) noexcept {
  send_entry& entry = window_.at(index);
  const send_request& request = entry.request;
  const transport_rules& rules = rules_of(self_.transport());
  message& what = out.what;
  if (!std::exchange(out.begun, true)) begin_message(what);
  local_refusal refused;
  std::uint64_t length = 0;
  if (send_window::gather_one(entry, self_.home().regions(), self_.domain(), out.region,
                              out.pieces[1])) {
    length = out.pieces[1].bytes;
    out.local = {out.pieces.data() + 1, 1};
  } else {
    const std::size_t count = window_.gather(index, std::span(out.pieces).subspan(1), refused.why);
    if (refused.why.why != reason::none) {
      refused.status = completion_status::local_protection_error;
      return refused;
    }
    out.local = {out.pieces.data() + 1, count};
    for (const segment& piece : out.local) length += piece.bytes;
  }
  if (length > rules.longest(request.opcode) || is_atomic(request.opcode)) {
    refused.why = check_length(rules, request.opcode, length);
    if (refused.why.why != reason::none) {
      refused.status = completion_status::local_length_error;
      return refused;
    }
    if (is_atomic(request.opcode)) length = 8;
    what.compare_or_add = request.compare_or_add;
    what.swap = request.swap;
  }
  entry.byte_count = static_cast<std::uint32_t>(length);
  what.opcode = request.opcode;
  what.solicited = request.flags.contains(send_flag::solicited);
  what.signaled = signals_all_ || request.flags.contains(send_flag::signaled);
  what.psn = entry.psn;
  what.immediate = request.immediate;
  what.length = entry.byte_count;
  what.remote_key = request.remote_key;
  what.remote_address = request.remote_address;
  if (rules.connected) return refused;
  const datagram_destination& to = destination(index);
  if (!to.known) {
    refused.status = completion_status::local_qp_operation_error;
    refused.why = {.why = reason::no_address, .detail = self_.number()};
    return refused;
  }
  what.destination_qpn = to.qpn;
  what.destination_lid = to.address.lid();
  what.by = to.address.path();
  what.qkey = to.key_of(self_.attributes().qkey);
  return refused;
}

bool requester::prepare_behind(std::uint32_t behind, numbering numbers,
                               outgoing_request& out) noexcept {
  const std::uint64_t index = window_.submitted() + behind;
  if (index >= window_.queue().posted() || self_.state() != queue_pair_state::rts) return false;
  send_entry& entry = window_.at(index);
  if (is_read_or_atomic(entry.request.opcode) && self_.attributes().max_rd_atomic == 0)
    return false;
  if (entry.request.flags.contains(send_flag::fence) && !window_.empty()) return false;
  entry.psn = numbers == numbering::none ? next_psn_ : (next_psn_ + behind) & psn_mask;
  return prepare(index, out).status == completion_status::success;
}

std::span<const sge> requester::elements_of_next() noexcept {
  send_entry& entry = window_.next();
  if (entry.request.flags.contains(send_flag::inline_data)) return {};
  return send_queue::sges_of(entry);
}

requester::start_decision requester::inspect(send_entry& entry) noexcept {
  const auto [becomes, rule] = faults_.inspect();
  if (becomes == send_faults::next::has_fault) return apply(entry, *rule);
  return becomes == send_faults::next::starts ? start_decision::start : start_decision::stop;
}

requester::start_decision requester::apply(send_entry& entry, const fault_rule& rule) noexcept {
  const failure why{.why = reason::injected_fault, .detail = rule.number};
  if (rule.effect == fault_effect::delay) faults_.hold(rule.delay);
  if (rule.effect != fault_effect::error) return start_decision::start;
  if (rule.delivered) {
    entry.status = rule.status;  // of its completion, once it is done
    self_.diagnosis().send_failure = why;
    return start_decision::start;
  }
  end(entry, rule.status, why);
  return start_decision::stop;
}

bool requester::answer(const request_id& /*which*/, const response& /*what*/) noexcept {
  return false;
}
bool requester::place(const request_id& /*which*/, std::uint64_t /*offset*/,
                      std::span<const std::byte> /*bytes*/) noexcept {
  return false;
}
bool requester::place_early(const request_id& /*which*/, std::uint64_t /*offset*/,
                            std::span<const std::byte> /*bytes*/) noexcept {
  return false;
}
void requester::process_lost(std::uint32_t /*slot*/, const failure& /*why*/) noexcept {}

void requester::end(send_entry& entry, completion_status status, const failure& why) noexcept {
  entry.stage = send_entry::progress::done;
  entry.status = status;
  self_.diagnosis().send_failure = why;
  closed_ = true;
  if (window_.has_next() && &entry == &window_.next()) window_.submit_next();
}

void requester::retire() noexcept {
  while (!window_.empty()) {
    const std::uint64_t index = window_.retired();
    const send_entry& entry = window_.at(index);
    if (entry.stage != send_entry::progress::done) return;
    window_.retire_next();
    if (entry.status == completion_status::success) {
      complete(index, index + 1);
      continue;
    }
    disown_payloads();
    window_.complete_failed(index, index + 1, entry.status, self_.diagnosis().send_failure);
    self_.fail_sends();
    return;
  }
}

void requester::wait_until(time_ns when) noexcept {
  deadline_ = when;
  self_.home().schedule(self_, when);
}

/// Notifies the path that requests end without an answer: the program may then reuse their memory.
void requester::disown_payloads() noexcept {
  if (remote_path* const path = self_.home().remote()) path->disown_payloads(self_);
}

void requester::clear() noexcept {
  disown_payloads();
  window_.clear();
  faults_.forget();
  ++attempt_;
  deadline_ = never;
  closed_ = drain_event_ = false;
  forget_window();
}

void requester::recover() noexcept {
  closed_ = false;
  forget_window();
}

void requester::flush() noexcept {
  disown_payloads();
  window_.flush(self_.flush_reason());
  faults_.forget();
  ++attempt_;
  deadline_ = never;
  drain_event_ = false;
  forget_window();
}

void requester::notify_when_drained() noexcept {
  drain_event_ = true;
  report_drained();
}

void requester::report_drained() noexcept {
  if (self_.state() != queue_pair_state::sqd || draining()) return;
  drain_event_ = false;
  self_.report(queue_pair_event::send_queue_drained);
}

}  // namespace verbena::softdev
