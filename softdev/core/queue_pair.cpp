// SPDX-License-Identifier: MIT
#include "softdev/core/queue_pair.hpp"

#include <memory>
#include <mutex>

#include "softdev/core/engine.hpp"
#include "softdev/core/transport/make_requester.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/core/transport/transitions.hpp"

namespace verbena::softdev {

queue_pair::queue_pair(engine& home, std::uint32_t number, const queue_pair_options& options,
                       const queue_pair_memory& memory)
    : home_(home),
      number_(number),
      attributes_(initial_attributes(options.transport)),
      options_(options),
      sends_(*this),
      requester_(make_requester(*this, options, memory.sender, memory.sends)),
      receives_(*this),
      responder_(*this, options, memory.receives),
      block_bytes_(memory.bytes) {}

bool queue_pair::run() noexcept {
  bool complete = false;
  if (send_lock().try_lock()) {
    const std::unique_lock lock(send_lock(), std::adopt_lock);
    if (retry_requested_.exchange(false)) requester_->retry_now();
    requester_->release_held();
    requester_->run();
    complete = true;
  }
  if (state() != queue_pair_state::error) return complete;
  if (!receive_lock().try_lock()) return false;
  const std::unique_lock lock(receive_lock(), std::adopt_lock);
  responder_.flush();
  return complete;
}

void queue_pair::request_retry() noexcept {
  retry_requested_.store(true);
  home_.ring(*this);
}

bool queue_pair::fail() noexcept {
  auto before = state();
  do {
    if (before == queue_pair_state::reset || before == queue_pair_state::error) return false;
  } while (!state_.compare_exchange_weak(before, queue_pair_state::error));
  failed_by_itself_.store(true);
  home_.ring(*this);
  if (auto* remote = home_.remote()) remote->changed(*this, false);
  return true;
}

void queue_pair::fail_sends() noexcept {
  if (!rules_of(transport()).has_send_error) {
    fail();
    return;
  }
  auto before = state();
  do {
    if (before != queue_pair_state::rts && before != queue_pair_state::sqd) return;
  } while (!state_.compare_exchange_weak(before, queue_pair_state::sqe));
  failed_by_itself_.store(true);
  if (auto* remote = home_.remote()) remote->changed(*this, false);
}

reason queue_pair::flush_reason() const noexcept {
  return failed_by_itself_.load() ? reason::flushed_after_error : reason::flushed_by_modify;
}

result<void> queue_pair::modify(const queue_pair_attributes& wanted, attribute_mask mask) {
  bool answers = false;
  auto* const remote = home_.remote();
  {
    const std::lock_guard send(send_lock());
    const std::lock_guard receive(receive_lock());
    const access_epoch::guard inside(home_.epoch());
    VERBENA_TRY_VOID(check_modification(state(), wanted, mask, transport()));
    queue_pair_attributes next = attributes_;
    apply(next, wanted, mask);
    if (remote != nullptr && mask.contains(attribute::state)) {
      if (wanted.state == queue_pair_state::rtr) remote->prepare(*this, next);
      if (wanted.state == queue_pair_state::reset) remote->before_reset(*this);
    }
    attributes_ = next;
    if (mask.contains(attribute::state)) {
      answers = wanted.state == queue_pair_state::rtr;
      enter(wanted.state);
    }
    if (remote != nullptr) remote->changed(*this, false);
  }
  // Waits until accesses that are no longer permitted have ended.
  if (remote != nullptr &&
      (mask.contains(attribute::state) || mask.contains(attribute::access_flags)))
    remote->fence();
  if (answers) wake_peer();
  return {};
}

bool queue_pair::try_follow(device_change what) noexcept {
  auto* const remote = home_.remote();
  {
    const std::unique_lock send(send_lock(), std::try_to_lock);
    if (!send) return false;
    const std::lock_guard receive(receive_lock());
    const access_epoch::guard inside(home_.epoch());
    if (state() == queue_pair_state::reset) return true;
    if (what == device_change::failure) enter(queue_pair_state::error);
    if (remote != nullptr) remote->changed(*this, false);
  }
  if (remote != nullptr && what == device_change::failure) remote->fence();
  return true;
}

/// Makes a peer in this process retry: it may have sent before this queue pair was ready.
void queue_pair::wake_peer() noexcept {
  const access_epoch::guard inside(home_.epoch());
  if (attributes_.path_to_peer != path_to_peer::same_host ||
      !home_.numbers().is_local(attributes_.destination_qpn))
    return;
  if (queue_pair* peer = home_.find(attributes_.destination_qpn)) peer->request_retry();
}

void queue_pair::enter(queue_pair_state next) noexcept {
  const queue_pair_state before = state();
  if (next == queue_pair_state::reset) return reset();
  if (next == queue_pair_state::rtr) responder_.start(attributes_.receive_psn);
  if (next == queue_pair_state::rts && before == queue_pair_state::rtr)
    requester_->begin(attributes_.send_psn);
  if (next == queue_pair_state::rts && before == queue_pair_state::sqe) {
    requester_->recover();
    failed_by_itself_.store(false);
  }
  state_.store(next, std::memory_order_release);
  if (next == queue_pair_state::error) {
    requester_->flush();
    responder_.flush();
  }
  if (next == queue_pair_state::sqd && before == queue_pair_state::rts && attributes_.sqd_notify)
    requester_->notify_when_drained();
  if (next == queue_pair_state::rts && before == queue_pair_state::sqd) {
    requester_->forget_drain_event();
    home_.ring(*this);
  }
}

void queue_pair::reset() noexcept {
  options_.send_queue->remove(&requester_->queue().released());
  options_.receive_queue->remove(&responder_.queue().released());
  requester_->clear();
  responder_.clear();
  attributes_ = initial_attributes(transport());
  failed_by_itself_.store(false);
  state_.store(queue_pair_state::reset, std::memory_order_release);
}

void queue_pair::detach() noexcept {
  options_.send_queue->forget(&requester_->queue().released());
  options_.receive_queue->forget(&responder_.queue().released());
  // The program may still have the handle, for example in a handler of an event. In this state, no
  // request is accepted or sent.
  state_.store(queue_pair_state::reset, std::memory_order_release);
}

queue_pair_attributes queue_pair::query() noexcept {
  const std::lock_guard send(send_lock());
  const std::lock_guard receive(receive_lock());
  queue_pair_attributes now = attributes_;
  now.state = now.current_state = state();
  now.draining = now.state == queue_pair_state::sqd && requester_->draining();
  return now;
}

}  // namespace verbena::softdev
