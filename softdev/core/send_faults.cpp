// SPDX-License-Identifier: MIT
#include "softdev/core/send_faults.hpp"

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"

namespace verbena::softdev {

void send_faults::add(queue_pair& self, send_window& window, const fault_rule& rule) {
  if (!used_) used_.reset(new used{self, window, request_faults(window.queue().capacity())});
  used_->requests.add(rule, {.qp_num = self.number(), .qp_index = self.options().index});
}

void send_faults::remove() noexcept {
  if (used_) used_->requests.remove_rules();
}

send_faults::decision send_faults::inspect() noexcept {
  if (used_->requests.stopped()) return {.becomes = next::waits};
  const fault_rule* const rule =
      used_->requests.inspect(used_->window.submitted(), used_->window.next().request.opcode);
  if (rule == nullptr) return {};
  if (rule->effect != fault_effect::command) return {.becomes = next::has_fault, .rule = rule};
  used_->requests.set_stopped(true);
  if (rule->observer != nullptr) rule->observer->triggered(used_->self, rule->command);
  return {.becomes = next::waits};
}

void send_faults::resume() noexcept {
  if (used_) used_->requests.set_stopped(false);
}

void send_faults::hold(time_ns duration) noexcept {
  used_->window.next().settled = send_entry::progress::held;
  used_->requests.hold(used_->window.submitted(), used_->self.home().now() + duration);
  used_->self.home().schedule(used_->self, used_->requests.first_held().due);
}

void send_faults::release_due() noexcept {
  if (!used_) return;
  const time_ns now = used_->self.home().now();
  while (used_->requests.holds_any() && used_->requests.first_held().due <= now) release_first();
  if (used_->requests.holds_any())
    used_->self.home().schedule(used_->self, used_->requests.first_held().due);
}

bool send_faults::release_all() noexcept {
  if (!used_ || !used_->requests.holds_any()) return false;
  while (used_->requests.holds_any()) release_first();
  return true;
}

/// Releases the oldest held request. It completes once it is done.
void send_faults::release_first() noexcept {
  const std::uint64_t index = used_->requests.first_held().index;
  used_->requests.release_first();
  if (index < used_->window.retired() || index >= used_->window.queue().posted()) return;
  send_entry& entry = used_->window.at(index);
  entry.settled = send_entry::progress::done;
  if (entry.stage == send_entry::progress::held) entry.stage = send_entry::progress::done;
}

void send_faults::forget() noexcept {
  if (used_) used_->requests.forget();
}

}  // namespace verbena::softdev
