// SPDX-License-Identifier: MIT
// A queue pair: its state and attributes, and its two sides. The send side (requester) and the
// receive side (responder) have a lock each; a thread that needs both takes the send lock first.
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

/// An asynchronous event of a queue pair (ibv_event_type).
enum class queue_pair_event : std::uint8_t {
  fatal,                      ///< IBV_EVENT_QP_FATAL
  request_error,              ///< IBV_EVENT_QP_REQ_ERR
  access_error,               ///< IBV_EVENT_QP_ACCESS_ERR
  communication_established,  ///< IBV_EVENT_COMM_EST
  send_queue_drained,         ///< IBV_EVENT_SQ_DRAINED
  last_request_reached,       ///< IBV_EVENT_QP_LAST_WQE_REACHED
};

class queue_pair;

/// Receives the asynchronous events of queue pairs. Threads: thread-safe; called possibly with
/// locks of queue pairs held: must not block or call the engine.
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
  shared_receive_queue* shared_receives = nullptr;  ///< replaces its own receive queue; outlives it
  queue_pair_capabilities capabilities;             ///< of receives: only without shared_receives
  bool signal_all = false;
  /// For SRD: the number of address handles of the protection domain; outlives the queue pair.
  const std::atomic<std::uint32_t>* addresses = nullptr;
  queue_pair_observer* observer = nullptr;  ///< outlives the queue pair
  void* owner = nullptr;                    ///< for the observer's use
  std::uint32_t index = 0;  ///< the n-th queue pair of the engine, from 1; set by the engine
};

[[nodiscard]] send_queue::sizes send_queue_sizes(const queue_pair_options& options) noexcept;
[[nodiscard]] receive_queue::sizes receive_queue_sizes(const queue_pair_options& options) noexcept;

/// The memory of the parts of a queue pair; nullptr for a queue that allocates its memory.
struct queue_pair_memory {
  std::byte* sender = nullptr;
  std::byte* sends = nullptr;
  std::byte* receives = nullptr;
  std::size_t bytes = 0;  ///< of the block
};

/// Holds the data of paths about a queue pair. Threads: the states are changed with both locks of
/// the queue pair held; the needed memory is thread-safe.
class path_notes {
 public:
  /// Returns the state of the path between processes of this host; nullptr if there is no state.
  [[nodiscard]] void* state() const noexcept { return state_; }
  void set_state(void* state) noexcept { state_ = state; }
  /// Returns the state of the path of packets; nullptr if the queue pair is not connected by
  /// packets. It is separate, so that no path mistakes the state of another path for its own.
  [[nodiscard]] void* packets() const noexcept { return packets_; }
  void set_packets(void* state) noexcept { packets_ = state; }
  /// Returns memory that a request probably needs as well; nullptr if it is not known. Needs no
  /// lock.
  [[nodiscard]] const void* needed_memory() const noexcept {
    return needed_.load(std::memory_order_relaxed);
  }
  void note_needed_memory(const void* where) noexcept {
    needed_.store(where, std::memory_order_relaxed);
  }

 private:
  void* state_ = nullptr;
  std::atomic<const void*> needed_{nullptr};
  void* packets_ = nullptr;
};

/// The data for explaining failures of a queue pair.
struct queue_pair_diagnosis {
  /// Messages to this queue pair that were dropped, and its own messages that were not delivered.
  drop_log drops;
  failure send_failure;  ///< why the last send request failed or has no answer; needs the send lock
};

enum class device_change : std::uint8_t { port, failure };

/// A queue pair. Created and destroyed by the engine, in a queue_pair_block.
///
/// Threads: thread-safe. Nothing after creation allocates, except errors of `modify`.
class queue_pair {
 public:
  queue_pair(const queue_pair&) = delete;
  queue_pair& operator=(const queue_pair&) = delete;

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] domain_id domain() const noexcept { return options_.domain; }
  [[nodiscard]] softdev::transport transport() const noexcept { return options_.transport; }
  [[nodiscard]] const queue_pair_options& options() const noexcept { return options_; }
  [[nodiscard]] queue_pair_state state() const noexcept {
    return state_.load(std::memory_order_acquire);
  }

  /// Changes the state and other attributes. If the change is refused, nothing changes. Waits for
  /// requests in execution. Errors: `invalid_argument` (code EINVAL), with a description of the
  /// rule.
  [[nodiscard]] result<void> modify(const queue_pair_attributes& wanted, attribute_mask mask);
  [[nodiscard]] queue_pair_attributes query() noexcept;
  /// Follows a change of the device, except in RESET: publishes the port to peers, or moves to the
  /// error state after a failure. Returns false if a thread has an open batch.
  [[nodiscard]] bool try_follow(device_change what) noexcept;

  /// The interfaces for posting.
  [[nodiscard]] send_posting& sends() noexcept { return sends_; }
  [[nodiscard]] receive_posting& receives() noexcept { return receives_; }

  // For the engine and the paths.
  [[nodiscard]] engine& home() const noexcept { return home_; }
  [[nodiscard]] biased_lock& send_lock() noexcept { return sends_.lock(); }
  [[nodiscard]] biased_lock& receive_lock() noexcept { return receives_.lock(); }
  [[nodiscard]] requester& sender() noexcept { return *requester_; }
  [[nodiscard]] responder& receiver() noexcept { return responder_; }
  /// Valid with either lock held.
  [[nodiscard]] const queue_pair_attributes& attributes() const noexcept { return attributes_; }
  /// Moves to the error state; the lock of one side is held. The engine's progress flushes the
  /// other side. Returns false if the queue pair was in RESET or in the error state.
  bool fail() noexcept;
  /// Handles the failure of a send request: moves to SQE, in which only the send side is in error,
  /// if the transport has this state; otherwise moves to the error state.
  void fail_sends() noexcept;
  [[nodiscard]] queue_pair_diagnosis& diagnosis() noexcept { return diagnosis_; }
  static constexpr std::size_t path_room_bytes = 192;  ///< see queue_pair_block::path_room
  [[nodiscard]] path_notes& path() const noexcept { return path_; }
  /// Reports an event to the observer.
  void report(queue_pair_event what) noexcept {
    if (options_.observer != nullptr) options_.observer->event(*this, what);
  }
  /// Returns the reason in completions of flushed requests.
  [[nodiscard]] reason flush_reason() const noexcept;
  /// Runs the sides whose locks are free. Returns false if a side that must run has its lock taken.
  /// The caller must be inside the access epoch.
  [[nodiscard]] bool run() noexcept;
  /// Makes the engine retry a request without an answer: the peer may answer now. Needs no lock.
  void request_retry() noexcept;
  /// Detaches completions that are polled later, and refuses requests from now on. Called by the
  /// engine before destruction, with both locks held.
  void detach() noexcept;

 private:
  friend class queue_pair_block;
  queue_pair(engine& home, std::uint32_t number, const queue_pair_options& options,
             const queue_pair_memory& memory);
  ~queue_pair() = default;

  void enter(queue_pair_state next) noexcept;
  void reset() noexcept;
  void wake_peer() noexcept;

  // Members that both sides read, in two cache lines.
  engine& home_;
  const std::uint32_t number_;
  std::atomic<queue_pair_state> state_{queue_pair_state::reset};
  std::atomic<bool> retry_requested_{false};
  std::atomic<bool> failed_by_itself_{false};
  mutable path_notes path_;  ///< data of the paths, not of the queue pair
  queue_pair_attributes attributes_;
  const queue_pair_options options_;
  alignas(64) std::byte path_room_[path_room_bytes];
  alignas(64) send_posting sends_;
  struct destroyer {
    void operator()(requester* which) const noexcept { std::destroy_at(which); }
  };
  const std::unique_ptr<requester, destroyer> requester_;
  alignas(64) receive_posting receives_;
  responder responder_;
  // Rarely needed:
  const std::size_t block_bytes_;  ///< stored: a shared receive queue may be destroyed earlier
  queue_pair_diagnosis diagnosis_;
};

}  // namespace verbena::softdev
