// SPDX-License-Identifier: MIT
// A queue pair: its state and attributes, and its two sides. The send side (requester) and the
// receive side (responder) have a lock each; where both are held, the send lock comes first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "softdev/core/attributes.hpp"
#include "softdev/core/biased_lock.hpp"
#include "softdev/core/completion_queue.hpp"
#include "softdev/core/datagram.hpp"
#include "softdev/core/drop_log.hpp"
#include "softdev/core/failure.hpp"
#include "softdev/core/posting.hpp"
#include "softdev/core/requester.hpp"
#include "softdev/core/responder.hpp"
#include "softdev/core/shared_receive_queue.hpp"
#include "softdev/core/types.hpp"
#include "softdev/core/work_queue.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

class engine;

/// What happened to a queue pair (ibv_event_type).
enum class queue_pair_event : std::uint8_t {
  fatal,                      ///< IBV_EVENT_QP_FATAL
  request_error,              ///< IBV_EVENT_QP_REQ_ERR
  access_error,               ///< IBV_EVENT_QP_ACCESS_ERR
  communication_established,  ///< IBV_EVENT_COMM_EST
  send_queue_drained,         ///< IBV_EVENT_SQ_DRAINED
  last_request_reached,       ///< IBV_EVENT_QP_LAST_WQE_REACHED
};

class queue_pair;

/// Learns what happens to a queue pair. Threads: thread-safe, possibly with locks of queue pairs
/// held: must not block and must not call the engine.
class queue_pair_observer {
 public:
  virtual void event(queue_pair& which, queue_pair_event what) = 0;

 protected:
  ~queue_pair_observer() = default;
};

struct queue_pair_capabilities {
  std::uint32_t max_send_wr = 1;
  std::uint32_t max_receive_wr = 1;
  std::uint32_t max_send_sge = 1;
  std::uint32_t max_receive_sge = 1;
  std::uint32_t max_inline_bytes = 0;
};

struct queue_pair_options {
  domain_id domain{};
  softdev::transport transport = softdev::transport::rc;
  completion_queue* send_queue = nullptr;           ///< outlives the queue pair
  completion_queue* receive_queue = nullptr;        ///< outlives the queue pair
  shared_receive_queue* shared_receives = nullptr;  ///< instead of one of its own; outlives it
  queue_pair_capabilities capabilities;             ///< those of receives only without it
  bool signal_all = false;
  /// Of SRD: how many address handles the protection domain has; outlives the queue pair.
  const std::atomic<std::uint32_t>* addresses = nullptr;
  queue_pair_observer* observer = nullptr;  ///< outlives the queue pair
  void* owner = nullptr;                    ///< for the observer's use
  std::uint32_t index = 0;  ///< the n-th queue pair of the engine, from 1; set by the engine
};

[[nodiscard]] send_queue::sizes send_queue_sizes(const queue_pair_options& options) noexcept;
[[nodiscard]] receive_queue::sizes receive_queue_sizes(const queue_pair_options& options) noexcept;

/// A queue pair. Created and destroyed by the engine. The object, its send side and its queues,
/// unless they are long, are in one block of memory: first what each request needs.
///
/// Threads: thread-safe. Nothing after creation allocates, except errors of `modify`.
class queue_pair {
 public:
  /// Returns nullptr if memory is exhausted; if that is the memory of a long queue, throws
  /// std::bad_alloc.
  [[nodiscard]] static queue_pair* create(engine& home, std::uint32_t number,
                                          const queue_pair_options& options);
  static void destroy(queue_pair* which) noexcept;
  /// Begins to load what posting sends needs into the cache, all at once: a queue pair that was not
  /// used for a while costs one miss instead of many. `which` need not exist any more.
  static void prefetch_sends(const queue_pair* which) noexcept;
  /// The same for a request that comes.
  static void prefetch_receives(const queue_pair* which) noexcept;
  queue_pair(const queue_pair&) = delete;
  queue_pair& operator=(const queue_pair&) = delete;

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] domain_id domain() const noexcept { return options_.domain; }
  [[nodiscard]] softdev::transport transport() const noexcept { return options_.transport; }
  [[nodiscard]] const queue_pair_options& options() const noexcept { return options_; }
  /// Each send request completes with a completion, as with IBV_SEND_SIGNALED.
  [[nodiscard]] bool signals_all() const noexcept { return signals_all_; }
  [[nodiscard]] queue_pair_state state() const noexcept {
    return state_.load(std::memory_order_acquire);
  }

  /// Changes the state and other attributes; a refused change changes nothing. Waits for requests
  /// in execution. Errors: `invalid_argument` (code EINVAL), with the rule in words.
  [[nodiscard]] result<void> modify(const queue_pair_attributes& wanted, attribute_mask mask);
  [[nodiscard]] queue_pair_attributes query() noexcept;
  /// Shows peers what has changed at the port. No batch may be open on this thread.
  void republish() noexcept;

  /// Where programs post.
  [[nodiscard]] send_posting& sends() noexcept { return sends_; }
  [[nodiscard]] receive_posting& receives() noexcept { return receives_; }

  // For the engine and the paths.
  [[nodiscard]] engine& home() const noexcept { return home_; }
  [[nodiscard]] biased_lock& send_lock() noexcept { return send_lock_; }
  [[nodiscard]] biased_lock& receive_lock() noexcept { return receive_lock_; }
  [[nodiscard]] requester& sender() noexcept { return *requester_; }
  [[nodiscard]] responder& receiver() noexcept { return responder_; }
  /// Valid with either lock held.
  [[nodiscard]] const queue_pair_attributes& attributes() const noexcept { return attributes_; }
  /// Moves to the error state from one side; the other side's lock need not be held: it is flushed
  /// by the engine's progress. False when the queue pair was not working any more.
  bool fail() noexcept;
  /// A send request failed: moves to the error state, or where the transport has one, to that in
  /// which only the send side is in error (SQE).
  void fail_sends() noexcept;
  /// Messages to this queue pair that were dropped, and messages of it that found nobody.
  [[nodiscard]] drop_log& drops() noexcept { return drops_; }
  /// Why the last send request failed, or has no answer. With the send lock.
  [[nodiscard]] const failure& send_failure() const noexcept { return send_failure_; }
  void set_send_failure(const failure& why) noexcept { send_failure_ = why; }
  /// For the path to other processes: room for what it keeps of the queue pair, in the memory that
  /// posting loads anyway, and where in that room or elsewhere it is; nullptr if it keeps nothing.
  /// Changed with both locks.
  static constexpr std::size_t path_room_bytes = 192;
  [[nodiscard]] std::byte* path_room() noexcept { return path_room_; }
  [[nodiscard]] void* path_state() const noexcept { return path_state_; }
  void set_path_state(void* state) noexcept { path_state_ = state; }
  /// Memory that a request probably needs besides; nullptr if it is not known. Needs no lock.
  [[nodiscard]] const void* needed_memory() const noexcept {
    return needed_memory_.load(std::memory_order_relaxed);
  }
  void note_needed_memory(const void* where) noexcept {
    needed_memory_.store(where, std::memory_order_relaxed);
  }
  /// Tells the observer.
  void report(queue_pair_event what) noexcept {
    if (options_.observer != nullptr) options_.observer->event(*this, what);
  }
  /// What completions of flushed requests say.
  [[nodiscard]] reason flush_reason() const noexcept;
  /// Runs both sides as far as their locks are free; false when one was not. Wants an access epoch.
  [[nodiscard]] bool run() noexcept;
  /// Somebody at the other end may answer now. Needs no lock.
  void request_retry() noexcept;
  /// Cuts off completions that are polled later; called by the engine before destruction.
  void detach() noexcept;

 private:
  struct parts;
  struct hot;
  queue_pair(engine& home, std::uint32_t number, const queue_pair_options& options,
             const parts& memory);
  ~queue_pair() = default;

  void enter(queue_pair_state next) noexcept;
  void reset() noexcept;
  void wake_peer() noexcept;

  // What both sides read, in two lines.
  engine& home_;
  const std::uint32_t number_;
  std::atomic<queue_pair_state> state_{queue_pair_state::reset};
  std::atomic<bool> retry_requested_{false};
  std::atomic<bool> failed_by_itself_{false};
  const bool signals_all_;
  void* path_state_ = nullptr;
  std::atomic<const void*> needed_memory_{nullptr};
  queue_pair_attributes attributes_;
  const queue_pair_options options_;
  alignas(64) std::byte path_room_[path_room_bytes];
  alignas(64) biased_lock send_lock_;
  send_posting sends_;
  struct destroyer {
    void operator()(requester* which) const noexcept { std::destroy_at(which); }
  };
  const std::unique_ptr<requester, destroyer> requester_;
  alignas(64) biased_lock receive_lock_;
  receive_posting receives_;
  responder responder_;
  // Seldom needed:
  failure send_failure_;
  drop_log drops_;
};

}  // namespace verbena::softdev
