// SPDX-License-Identifier: MIT
#include "softdev/core/queue_pair.hpp"

#include <memory>
#include <mutex>
#include <new>

#include "softdev/core/block_pool.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/transport/make_requester.hpp"
#include "softdev/core/transport/request_extra.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/core/transport/transitions.hpp"

namespace verbena::softdev {

namespace {

constexpr std::size_t line = 64;
constexpr std::size_t in_lines(std::size_t bytes) noexcept {
  return (bytes + line - 1) / line * line;
}

}  // namespace

send_queue::sizes send_queue_sizes(const queue_pair_options& options) noexcept {
  return {.wr_count = options.capabilities.max_send_wr,
          .max_sges = options.capabilities.max_send_sge,
          .max_inline_bytes = options.capabilities.max_inline_bytes,
          .extra_bytes = request_extra_bytes(options.transport)};
}

receive_queue::sizes receive_queue_sizes(const queue_pair_options& options) noexcept {
  const shared_receive_queue* const shared = options.shared_receives;
  if (shared != nullptr) return {.wr_count = 1, .max_sges = shared->max_sges()};
  return {.wr_count = options.capabilities.max_receive_wr,
          .max_sges = options.capabilities.max_receive_sge};
}

/// Where the parts of a queue pair are in its block. Long queues have memory of their own.
struct queue_pair::parts {
  explicit parts(const queue_pair_options& options) noexcept
      : sends_at(sender_at + in_lines(requester_bytes(options.transport))),
        send_bytes(send_queue::bytes_of(send_queue_sizes(options))),
        receive_bytes(receive_queue::bytes_of(receive_queue_sizes(options))),
        has_queues(sends_at + send_bytes + receive_bytes <= longest) {}

  static constexpr std::size_t longest = 16384;
  static constexpr std::size_t sender_at = in_lines(sizeof(queue_pair));
  std::size_t sends_at;
  std::size_t send_bytes;
  std::size_t receive_bytes;
  bool has_queues;
  std::byte* begin = nullptr;

  [[nodiscard]] std::size_t bytes() const noexcept {
    return sends_at + (has_queues ? send_bytes + receive_bytes : 0);
  }
  [[nodiscard]] std::byte* sender() const noexcept { return begin + sender_at; }
  [[nodiscard]] std::byte* sends() const noexcept {
    return has_queues ? begin + sends_at : nullptr;
  }
  [[nodiscard]] std::byte* receives() const noexcept {
    return has_queues ? begin + sends_at + send_bytes : nullptr;
  }
};

namespace {

/// Begins to load `count` lines from `offset` on into the cache.
void prefetch(const queue_pair* which, std::size_t offset, std::size_t count) noexcept {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(which) + offset;
  for (std::size_t i = 0; i < count; ++i)
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i * line));
}

}  // namespace

/// Where in a queue pair its hot parts are.
struct queue_pair::hot {
  static constexpr std::size_t common = 0;
  static constexpr std::size_t path = 3 * line;
  static constexpr std::size_t sends = 6 * line;
  static constexpr std::size_t receives = 7 * line;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  static_assert(offsetof(queue_pair, path_room_) == path &&
                offsetof(queue_pair, send_lock_) == sends &&
                offsetof(queue_pair, receive_lock_) == receives);
#pragma GCC diagnostic pop
};

void queue_pair::prefetch_sends(const queue_pair* which) noexcept {
  prefetch(which, hot::common, 2);
  prefetch(which, hot::path, 1);
  prefetch(which, hot::sends, 1);
  prefetch(which, parts::sender_at, 4);  // and the first entry of the queue
}

void queue_pair::prefetch_receives(const queue_pair* which) noexcept {
  prefetch(which, hot::common, 2);
  prefetch(which, hot::path, 2);
  prefetch(which, hot::receives, 3);
}

queue_pair::queue_pair(engine& home, std::uint32_t number, const queue_pair_options& options,
                       const parts& memory)
    : home_(home),
      number_(number),
      signals_all_(options.signal_all),
      attributes_(initial_attributes(options.transport)),
      options_(options),
      sends_(*this),
      requester_(make_requester(*this, options, memory.sender(), memory.sends())),
      receives_(*this),
      responder_(*this, options, memory.receives()) {}

queue_pair* queue_pair::create(engine& home, std::uint32_t number,
                               const queue_pair_options& options) {
  parts memory(options);
  memory.begin = static_cast<std::byte*>(block_pool::allocate(memory.bytes()));
  if (memory.begin == nullptr) return nullptr;
  try {
    return new (memory.begin) queue_pair(home, number, options, memory);
  } catch (const std::bad_alloc&) {
    block_pool::release(memory.begin, memory.bytes());
    throw;
  }
}

void queue_pair::destroy(queue_pair* which) noexcept {
  const std::size_t bytes = parts(which->options_).bytes();
  which->~queue_pair();
  block_pool::release(which, bytes);
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
    queue_pair_attributes next = attributes_;
    apply(next, wanted, mask);
    if (remote != nullptr && mask.contains(attribute::state) &&
        wanted.state == queue_pair_state::rtr)
      remote->prepare(*this, next);
    attributes_ = next;
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
