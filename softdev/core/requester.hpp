// SPDX-License-Identifier: MIT
// The send side of a queue pair: executes the send queue in order, keeps the window of requests
// that were submitted and not yet answered, retries, and completes in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "softdev/core/datagram.hpp"
#include "softdev/core/delivery.hpp"
#include "softdev/core/failure.hpp"
#include "softdev/core/fault_rule.hpp"
#include "softdev/core/message.hpp"
#include "softdev/core/work_queue.hpp"

namespace verbena::softdev {

class queue_pair;

/// Threads: one thread at a time: all functions want the send lock of the queue pair held; those
/// that touch memory also want an access epoch. Does not allocate.
class requester {
 public:
  requester(queue_pair& self, std::uint32_t wr_count, std::uint32_t max_sges,
            std::uint32_t max_inline_bytes, std::size_t extra_bytes);

  [[nodiscard]] send_queue& queue() noexcept { return queue_; }
  /// Where the request goes; only with transports whose requests name a destination.
  [[nodiscard]] datagram_destination& destination(std::uint64_t index) noexcept {
    return *std::launder(reinterpret_cast<datagram_destination*>(queue_.extra(index)));
  }

  /// Starts what may start now, completes what is done, retries what is due. In the error state
  /// flushes everything.
  void run() noexcept;
  /// When `run` has to be called again without a cause; `never` if not.
  [[nodiscard]] time_ns deadline() const noexcept { return deadline_; }
  /// The peer may answer now: a request that waits for an answer is tried again by the next `run`.
  void retry_now() noexcept;

  /// The answer to the request with this packet sequence number; it also answers the sends and
  /// writes before it. One that fits no request in flight is counted and ignored (false). The
  /// caller calls `run` afterwards.
  bool answer(std::uint32_t psn, std::uint16_t attempt, const response& what) noexcept;
  /// Data of a read or atomic answer at `offset` of its sinks. False, and counted, when it fits no
  /// such request. A sink that fails its checks ends the request with a local protection error.
  bool place(std::uint32_t psn, std::uint16_t attempt, std::uint64_t offset,
             std::span<const std::byte> bytes) noexcept;
  /// The path to the peer broke for good: what is in flight or queued ends in retry_exceeded. The
  /// caller calls `run` afterwards.
  void peer_lost(const failure& why) noexcept;

  // SRD, whose requests are answered one by one, in any order; requester_delivery.cpp.
  /// As `answer`.
  bool answer_delivery(const delivery_part& part, const response& what) noexcept;
  /// As `place`; `offset` counts in the part that is on its way.
  bool place_delivery(const delivery_part& part, std::uint64_t offset,
                      std::span<const std::byte> bytes) noexcept;
  /// The process that has the slot is gone, or out of reach.
  void process_lost(std::uint32_t slot, const failure& why) noexcept;

  [[nodiscard]] bool idle() const noexcept { return retired_ == queue_.posted(); }
  [[nodiscard]] bool window_empty() const noexcept { return retired_ == submitted_; }
  [[nodiscard]] std::uint64_t ignored_answers() const noexcept { return ignored_answers_; }

  // For the queue pair.
  void begin(std::uint32_t send_psn) noexcept;  ///< RTR -> RTS
  void clear() noexcept;                        ///< -> RESET
  void flush() noexcept;                        ///< -> ERR, SQE: completes everything as flushed
  void recover() noexcept;                      ///< SQE -> RTS
  void notify_when_drained() noexcept;
  /// True while a request that was sent at least once has not completed.
  [[nodiscard]] bool draining() const noexcept { return !window_empty() || submitted_ < begun_; }

  // Injected faults; requester_faults.cpp. Adding a rule allocates.
  void add_fault(const fault_rule& rule);
  void remove_faults() noexcept;
  /// Releases requests whose completion was delayed and is due. The caller calls `run` afterwards.
  void release_held() noexcept;
  /// Lets the request start that waits for a command. The caller calls `run` afterwards.
  void resume() noexcept {
    if (faults_) faults_->set_stopped(false);
  }

 private:
  enum class wait : std::uint8_t { none, receiver, answer, deliveries };
  /// Whether requests start. Closed: a request of the window failed; nothing more starts.
  enum class gate : std::uint8_t { open, inspected, closed };
  enum class admission : std::uint8_t { start, stop, done };

  [[nodiscard]] static message message_of(const send_request& request, std::uint32_t psn,
                                          std::uint64_t length) noexcept;
  [[nodiscard]] bool ready() noexcept;
  [[nodiscard]] bool may_send() const noexcept;
  [[nodiscard]] bool may_start(const send_entry& entry) const noexcept;
  bool start(send_entry& entry) noexcept;
  [[nodiscard]] admission inspect(send_entry& entry) noexcept;
  [[nodiscard]] admission inspect_delivery(send_entry& entry, const fault_rule& rule) noexcept;
  void release_first_held() noexcept;
  void release_all_held() noexcept;
  void reopen() noexcept { gate_ = faults_ ? gate::inspected : gate::open; }
  [[nodiscard]] failure name_local(std::uint64_t index, const failure& why) noexcept;
  [[nodiscard]] std::size_t gather(std::uint64_t index, std::span<segment> out,
                                   failure& why) noexcept;
  [[nodiscard]] response send(const message& what, std::span<const segment> local) noexcept;
  bool settle(send_entry& entry, const response& what) noexcept;
  // Unreliable transports; requester_unreliable.cpp
  bool start_unreliable(send_entry& entry) noexcept;
  [[nodiscard]] response send_unreliable(const message& what,
                                         std::span<const segment> local) noexcept;
  [[nodiscard]] response send_to_group(const message& what,
                                       std::span<const segment> local) noexcept;
  bool settle_unreliable(send_entry& entry, const response& what) noexcept;
  // SRD; requester_delivery.cpp
  [[nodiscard]] delivery& delivery_of(std::uint64_t index) noexcept {
    return *std::launder(reinterpret_cast<delivery*>(queue_.extra(index)));
  }
  [[nodiscard]] bool start_delivery(send_entry& entry) noexcept;
  [[nodiscard]] bool deliver(std::uint64_t index) noexcept;
  [[nodiscard]] response send_delivery(message& what, std::span<const segment> local) noexcept;
  [[nodiscard]] bool settle_delivery(std::uint64_t index, const response& what) noexcept;
  void wait_for_delivery(std::uint64_t index, time_ns when) noexcept;
  void postpone_delivery(std::uint64_t index, time_ns when) noexcept;
  void try_again_or_end(std::uint64_t index, const failure& why) noexcept;
  void retry_deliveries() noexcept;
  void end_delivery(std::uint64_t index, completion_status status, const failure& why) noexcept;
  [[nodiscard]] bool find_delivery(const delivery_part& part, std::uint64_t& index) noexcept;
  void flush_deliveries(reason why) noexcept;
  void end(send_entry& entry, completion_status status, const failure& why) noexcept;
  void wait_for_receiver(send_entry& entry, const response& what) noexcept;
  void wait_for_answer(const failure& why) noexcept;
  void wait_until(wait what, time_ns when) noexcept;
  void give_up() noexcept;
  [[nodiscard]] send_entry* in_flight(std::uint32_t psn, std::uint16_t attempt,
                                      std::uint64_t& index) noexcept;
  [[nodiscard]] bool finish_earlier(std::uint64_t index) noexcept;
  void finish_in_flight(send_entry& entry) noexcept;
  void rewind_to(std::uint64_t index) noexcept;
  void retire() noexcept;
  void complete(std::uint64_t index) noexcept;
  /// `released` is the first entry that is still needed when the completion has been polled.
  void push(std::uint64_t index, std::uint64_t released, completion_status status,
            reason why) noexcept;
  void report_drained() noexcept;

  queue_pair& self_;
  send_queue queue_;
  std::uint64_t retired_ = 0;    ///< completed below
  std::uint64_t submitted_ = 0;  ///< handed to a path below
  std::uint64_t begun_ = 0;      ///< handed to a path below, also if a retry is due
  std::uint32_t next_psn_ = 0;
  std::uint16_t attempt_ = 0;
  std::uint32_t reads_in_flight_ = 0;
  std::uint8_t receiver_retries_ = 0;
  std::uint8_t answer_retries_ = 0;
  wait waiting_ = wait::none;
  gate gate_ = gate::open;
  bool drain_event_ = false;
  time_ns deadline_ = never;
  time_ns patience_ = never;  ///< when a message that its path does not take is dropped
  failure failure_;           ///< of the request that failed, or why there is no answer
  std::uint64_t ignored_answers_ = 0;
  std::unique_ptr<request_faults> faults_;  ///< nullptr without injected faults
};

}  // namespace verbena::softdev
