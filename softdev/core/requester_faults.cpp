// SPDX-License-Identifier: MIT
// Injected faults of send requests. A queue pair without faults never gets here: its gate is open.
#include <algorithm>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/requester.hpp"

namespace verbena::softdev {

void requester::add_fault(const fault_rule& rule) {
  if (!faults_) faults_ = std::make_unique<request_faults>(queue_.capacity());
  faults_->add(rule, {.qp_num = self_.number(), .qp_index = self_.options().index});
  if (gate_ == gate::open) gate_ = gate::inspected;
}

void requester::remove_faults() noexcept {
  if (faults_) faults_->remove_rules();
}

/// Applies the faults of the request at `submitted_`.
requester::admission requester::inspect(send_entry& entry) noexcept {
  if (faults_->stopped()) return admission::stop;
  const fault_rule* const rule = faults_->inspect(submitted_, entry.request.opcode);
  if (rule == nullptr) return admission::start;
  if (rule->effect == fault_effect::command) {
    faults_->set_stopped(true);
    self_.home().trigger(self_, rule->command);
    return admission::stop;
  }
  if (self_.transport() == transport::srd) return inspect_delivery(entry, *rule);
  const failure why{.why = reason::injected_fault, .detail = rule->number};
  switch (rule->effect) {
    case fault_effect::error:
      if (rule->delivered) {
        entry.status = rule->status;  // that of its completion, once it is done
        failure_ = why;
        return admission::start;
      }
      end(entry, rule->status, why);
      return admission::stop;
    case fault_effect::receiver_not_ready:
      if (!is_reliable(self_.transport())) return admission::start;
      wait_for_receiver(
          entry,
          {.outcome = verdict::receiver_not_ready, .rnr_timer = rule->rnr_timer, .why = why});
      return admission::stop;
    case fault_effect::delay: {
      const time_ns due = self_.home().now() + rule->delay;
      entry.settled = send_entry::progress::held;
      faults_->hold(submitted_, due);
      self_.home().schedule(self_, faults_->first_held().due);
      return admission::start;
    }
    case fault_effect::none:
    case fault_effect::command:
      break;
  }
  return admission::start;
}

/// Requests over SRD have no order, so a delay is one of the delivery.
requester::admission requester::inspect_delivery(send_entry& entry,
                                                 const fault_rule& rule) noexcept {
  const time_ns now = self_.home().now();
  const failure why{.why = reason::injected_fault, .detail = rule.number};
  entry.psn = next_psn_;
  next_psn_ = (next_psn_ + 1) & psn_mask;
  const std::uint64_t index = submitted_++;
  const std::uint8_t allowed = self_.attributes().rnr_retry;
  if (rule.effect == fault_effect::error) {
    end_delivery(index, rule.status, why);
  } else if (rule.effect == fault_effect::delay) {
    postpone_delivery(index, now + rule.delay);
  } else if (allowed != 7 && rule.repetitions > allowed) {
    end_delivery(index, completion_status::rnr_retry_exceeded, why);
  } else {
    postpone_delivery(index, now + rule.repetitions * rnr_time(rule.rnr_timer));
  }
  return admission::done;
}

void requester::release_held() noexcept {
  if (!faults_) return;
  const time_ns now = self_.home().now();
  while (faults_->holds_any() && faults_->first_held().due <= now) release_first_held();
  if (faults_->holds_any()) self_.home().schedule(self_, faults_->first_held().due);
}

/// The request completes when it is done, if it is not already.
void requester::release_first_held() noexcept {
  const std::uint64_t index = faults_->first_held().index;
  faults_->release_first();
  if (index < retired_ || index >= queue_.posted()) return;
  send_entry& entry = queue_.at(index);
  entry.settled = send_entry::progress::done;
  if (entry.stage == send_entry::progress::held) entry.stage = send_entry::progress::done;
}

/// Completes what only waits for its time.
void requester::release_all_held() noexcept {
  if (!faults_ || !faults_->holds_any()) return;
  while (faults_->holds_any()) release_first_held();
  retire();
}

}  // namespace verbena::softdev
