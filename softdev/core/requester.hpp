// SPDX-License-Identifier: MIT
// The send side of a queue pair: executes the send queue in order, keeps the window of requests
// that were submitted and not yet answered, retries, and completes in order.
#pragma once

#include <cstdint>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/work_queue.hpp"

namespace verbena::softdev {

class queue_pair;

/// Threads: one thread at a time: all functions want the send lock of the queue pair held; those
/// that touch memory also want an access epoch. Does not allocate.
class requester {
 public:
  explicit requester(queue_pair& self);

  [[nodiscard]] send_queue& queue() noexcept { return queue_; }

  /// Starts what may start now, completes what is done, retries what is due. In the error state
  /// flushes everything.
  void run() noexcept;
  /// When `run` has to be called again without a cause; `never` if not.
  [[nodiscard]] time_ns deadline() const noexcept { return deadline_; }
  /// The peer may answer now: a request that waits for an answer is tried at once.
  void retry_now() noexcept;

  /// The answer to the request with this packet sequence number; `done` also answers the sends and
  /// writes before it. One that fits no request in flight is counted and ignored (false). The
  /// caller calls `run` afterwards.
  bool answer(std::uint32_t psn, const response& what) noexcept;
  /// Data of a read or atomic answer at `offset` of its sinks. False when it fits no such request;
  /// a sink that fails its checks ends the request with a local protection error.
  bool place(std::uint32_t psn, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
  /// The path to the peer broke for good: what is in flight or queued ends in retry_exceeded.
  void peer_lost(const failure& why) noexcept;

  [[nodiscard]] bool idle() const noexcept { return retired_ == queue_.posted(); }
  [[nodiscard]] bool window_empty() const noexcept { return retired_ == submitted_; }
  [[nodiscard]] std::uint64_t ignored_answers() const noexcept { return ignored_answers_; }

  // For the queue pair.
  void begin(std::uint32_t send_psn) noexcept;  ///< RTR -> RTS
  void clear() noexcept;                        ///< -> RESET
  void notify_when_drained() noexcept { drain_event_ = true; }

 private:
  enum class wait : std::uint8_t { none, rnr, answer, room };

  [[nodiscard]] bool may_start(const send_entry& entry) noexcept;
  [[nodiscard]] response start(send_entry& entry) noexcept;
  [[nodiscard]] response gather_and_submit(send_entry& entry, const message& what) noexcept;
  [[nodiscard]] response prepare(send_entry& entry, message& what) noexcept;
  bool settle(send_entry& entry, const response& what) noexcept;
  void end(send_entry& entry, completion_status status, const failure& why) noexcept;
  void wait_for_receiver(send_entry& entry, const response& what) noexcept;
  void wait_for_answer(send_entry& entry, const response& what) noexcept;
  void rewind_to(std::uint64_t index) noexcept;
  void retire() noexcept;
  void complete(std::uint64_t index) noexcept;
  void flush() noexcept;
  void report_drained() noexcept;
  [[nodiscard]] time_ns now() const noexcept;

  queue_pair& self_;
  send_queue queue_;
  std::uint64_t retired_ = 0;    ///< completed below
  std::uint64_t submitted_ = 0;  ///< handed to a path below
  std::uint32_t next_psn_ = 0;
  std::uint32_t reads_in_flight_ = 0;
  std::uint8_t rnr_retries_ = 0;
  std::uint8_t retries_ = 0;
  wait waiting_ = wait::none;
  bool stopped_ = false;  ///< a request of the window failed; nothing more starts
  bool drain_event_ = false;
  time_ns deadline_ = never;
  std::uint64_t ignored_answers_ = 0;
};

}  // namespace verbena::softdev
