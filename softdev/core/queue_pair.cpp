// SPDX-License-Identifier: MIT
#include "softdev/core/queue_pair.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>

#include "softdev/core/copy.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/transport/make_requester.hpp"
#include "softdev/core/transport/request_extra.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/core/transport/transitions.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev {
namespace {

sge element(sge_list list, std::uint32_t index) noexcept {
  sge one;
  std::memcpy(&one, static_cast<const std::byte*>(list.entries) + index * sizeof one, sizeof one);
  return one;
}

bool takes_sends(queue_pair_state state) {
  return state == queue_pair_state::rts || state == queue_pair_state::sqd ||
         state == queue_pair_state::sqe || state == queue_pair_state::error;
}

}  // namespace

queue_pair::queue_pair(engine& home, std::uint32_t number, const queue_pair_options& options)
    : home_(home),
      number_(number),
      options_(options),
      attributes_(initial_attributes(options.transport)),
      requester_(make_requester(*this, options)),
      responder_(*this, options) {}

void queue_pair::open_send() noexcept {
  send_lock_.lock();
  batch_begin_ = requester_->queue().posted();
}

int queue_pair::add_send(const send_request& request) noexcept {
  if (!takes_sends(state()) || !rules_of(transport()).carries(request.opcode)) return EINVAL;
  send_queue& queue = requester_->queue();
  if (queue.full()) return ENOMEM;
  begin_request_extra(transport(), queue.extra(queue.posted()));
  send_entry& entry = queue.next();
  entry.request = request;
  entry.request.flags = request.flags.without(send_flag::inline_data);
  queue.push();
  return 0;
}

int queue_pair::add_send(const send_request& request, sge_list data) noexcept {
  int code = add_send(request);
  if (code != 0) return code;
  if (request.flags.contains(send_flag::inline_data)) {
    code = append_send_inline(nullptr, 0);
    for (std::uint32_t i = 0; i < data.count && code == 0; ++i) {
      const sge one = element(data, i);
      code = append_send_inline(reinterpret_cast<const void*>(one.address), one.length);
    }
  } else {
    code = set_send_sges(data);
  }
  if (code != 0) take_back_send();
  return code;
}

void queue_pair::take_back_send() noexcept {
  requester_->queue().truncate(requester_->queue().posted() - 1);
}

int queue_pair::set_send_sges(sge_list data) noexcept {
  send_queue& queue = requester_->queue();
  VERBENA_CHECK(queue.posted() > batch_begin_, "data belong to a request of the open batch");
  if (data.count > queue.max_sges()) return EINVAL;
  const std::uint64_t index = queue.posted() - 1;
  send_entry& entry = queue.at(index);
  entry.sge_count = data.count;
  entry.request.flags = entry.request.flags.without(send_flag::inline_data);
  if (data.count > 0) std::memcpy(queue.payload(index), data.entries, data.count * sizeof(sge));
  return 0;
}

int queue_pair::append_send_inline(const void* data, std::size_t bytes) noexcept {
  send_queue& queue = requester_->queue();
  VERBENA_CHECK(queue.posted() > batch_begin_, "data belong to a request of the open batch");
  const std::uint64_t index = queue.posted() - 1;
  send_entry& entry = queue.at(index);
  if (is_read_or_atomic(entry.request.opcode) ||
      bytes > queue.max_inline_bytes() - entry.inline_bytes)
    return EINVAL;
  entry.request.flags |= send_flag::inline_data;
  if (copy_payload(queue.payload(index) + entry.inline_bytes, static_cast<const std::byte*>(data),
                   bytes) != copy_fault::none)
    return EFAULT;
  entry.inline_bytes += static_cast<std::uint32_t>(bytes);
  return 0;
}

void queue_pair::set_send_destination(const datagram_destination& to) noexcept {
  send_queue& queue = requester_->queue();
  VERBENA_CHECK(queue.posted() > batch_begin_ && !rules_of(transport()).connected,
                "a destination belongs to a datagram of the open batch");
  requester_->destination(queue.posted() - 1) = to;
}

void queue_pair::submit_send() noexcept {
  {
    const std::unique_lock lock(send_lock_, std::adopt_lock);
    const access_epoch::guard inside(home_.epoch());
    requester_->run();
  }
  if (state() == queue_pair_state::error) flush_receives_after_failure();
}

void queue_pair::abort_send() noexcept {
  requester_->queue().truncate(batch_begin_);
  send_lock_.unlock();
}

void queue_pair::open_receive() noexcept { receive_lock_.lock(); }

int queue_pair::add_receive(std::uint64_t wr_id, sge_list sinks) noexcept {
  receive_queue& queue = responder_.queue();
  if (options_.shared_receives != nullptr || state() == queue_pair_state::reset ||
      sinks.count > queue.max_sges())
    return EINVAL;
  if (queue.full()) return ENOMEM;
  const std::uint64_t index = queue.posted();
  receive_entry& entry = queue.next();
  entry.wr_id = wr_id;
  entry.sge_count = sinks.count;
  if (sinks.count > 0) std::memcpy(queue.payload(index), sinks.entries, sinks.count * sizeof(sge));
  queue.push();
  return 0;
}

void queue_pair::close_receive() noexcept {
  if (state() == queue_pair_state::error) responder_.flush();
  receive_lock_.unlock();
}

void queue_pair::flush_receives_after_failure() noexcept {
  const std::lock_guard lock(receive_lock_);
  if (state() == queue_pair_state::error) responder_.flush();
}

bool queue_pair::run() noexcept {
  bool complete = false;
  if (send_lock_.try_lock()) {
    const std::unique_lock lock(send_lock_, std::adopt_lock);
    if (retry_requested_.exchange(false)) requester_->retry_now();
    requester_->release_held();
    requester_->run();
    complete = true;
  }
  if (state() != queue_pair_state::error) return complete;
  if (!receive_lock_.try_lock()) return false;
  const std::unique_lock lock(receive_lock_, std::adopt_lock);
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
    const std::lock_guard send(send_lock_);
    const std::lock_guard receive(receive_lock_);
    const access_epoch::guard inside(home_.epoch());
    VERBENA_TRY_VOID(check_modification(state(), wanted, mask, transport()));
    apply(attributes_, wanted, mask);
    if (mask.contains(attribute::state)) {
      answers = wanted.state == queue_pair_state::rtr;
      enter(wanted.state);
    }
    if (remote != nullptr) remote->changed(*this, false);
  }
  // What became forbidden has ended when this returns.
  if (remote != nullptr &&
      (mask.contains(attribute::state) || mask.contains(attribute::access_flags)))
    remote->fence();
  if (answers) wake_peer();
  return {};
}

void queue_pair::republish() noexcept {
  const std::lock_guard send(send_lock_);
  const std::lock_guard receive(receive_lock_);
  if (auto* const remote = home_.remote(); remote != nullptr && state() != queue_pair_state::reset)
    remote->changed(*this, false);
}

/// A peer in this process may have tried in vain before we were ready.
void queue_pair::wake_peer() noexcept {
  const access_epoch::guard inside(home_.epoch());
  if (!home_.is_local(attributes_.destination_qpn)) return;
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
  if (next == queue_pair_state::rts && before == queue_pair_state::sqd) home_.ring(*this);
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
}

queue_pair_attributes queue_pair::query() noexcept {
  const std::lock_guard send(send_lock_);
  const std::lock_guard receive(receive_lock_);
  queue_pair_attributes now = attributes_;
  now.state = now.current_state = state();
  now.draining = now.state == queue_pair_state::sqd && requester_->draining();
  return now;
}

}  // namespace verbena::softdev
