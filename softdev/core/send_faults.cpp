// SPDX-License-Identifier: MIT
#include "softdev/core/send_faults.hpp"

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"

namespace verbena::softdev {

void send_faults::add(const fault_rule& rule) {
  if (!requests_) requests_ = std::make_unique<request_faults>(window_.queue().capacity());
  requests_->add(rule, {.qp_num = self_.number(), .qp_index = self_.options().index});
}

void send_faults::remove() noexcept {
  if (requests_) requests_->remove_rules();
}

send_faults::decision send_faults::inspect() noexcept {
  if (requests_->stopped()) return {.becomes = next::waits};
  const fault_rule* const rule =
      requests_->inspect(window_.submitted(), window_.next().request.opcode);
  if (rule == nullptr) return {};
  if (rule->effect != fault_effect::command) return {.becomes = next::has_fault, .rule = rule};
  requests_->set_stopped(true);
  if (rule->observer != nullptr) rule->observer->triggered(self_, rule->command);
  return {.becomes = next::waits};
}

void send_faults::resume() noexcept {
  if (requests_) requests_->set_stopped(false);
}

void send_faults::hold(time_ns duration) noexcept {
  window_.next().settled = send_entry::progress::held;
  requests_->hold(window_.submitted(), self_.home().now() + duration);
  self_.home().schedule(self_, requests_->first_held().due);
}

void send_faults::release_due() noexcept {
  if (!requests_) return;
  const time_ns now = self_.home().now();
  while (requests_->holds_any() && requests_->first_held().due <= now) release_first();
  if (requests_->holds_any()) self_.home().schedule(self_, requests_->first_held().due);
}

bool send_faults::release_all() noexcept {
  if (!requests_ || !requests_->holds_any()) return false;
  while (requests_->holds_any()) release_first();
  return true;
}

/// The request completes when it is done, if it is not already.
void send_faults::release_first() noexcept {
  const std::uint64_t index = requests_->first_held().index;
  requests_->release_first();
  if (index < window_.retired() || index >= window_.queue().posted()) return;
  send_entry& entry = window_.at(index);
  entry.settled = send_entry::progress::done;
  if (entry.stage == send_entry::progress::held) entry.stage = send_entry::progress::done;
}

void send_faults::forget() noexcept {
  if (requests_) requests_->forget();
}

}  // namespace verbena::softdev
