// SPDX-License-Identifier: MIT
// The receive side of a queue pair: checks requests, takes receive work requests, places payload,
// executes reads and atomics. A request arrives whole or in fragments: begin, place…, finish.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "softdev/core/completion_queue.hpp"
#include "softdev/core/message.hpp"
#include "softdev/core/responder_checks.hpp"
#include "softdev/core/work_queue.hpp"

namespace verbena::softdev {

class queue_pair;
class shared_receive_queue;
struct queue_pair_options;
struct transport_rules;

/// Executes requests of a peer. Threads: one thread at a time: the caller holds the receive lock of
/// the queue pair and, if the function handles a request, is inside an access epoch. Does not
/// allocate.
class responder {
 public:
  /// `memory`: the memory of the receive queue, or nullptr.
  responder(queue_pair& self, const queue_pair_options& options, std::byte* memory);

  [[nodiscard]] receive_queue& queue() noexcept { return queue_; }

  /// Begins a request and checks it. After `done`, the caller continues with `place` and `finish`
  /// (sends, writes), `read`, or `finish` at once (atomics). Any other response is the answer and
  /// ends the request. `what` must stay valid until the request ends, or until `keep`.
  [[nodiscard]] response begin(const message& what) noexcept;
  /// Copies the message of the request in progress. `what` of `begin` may then be destroyed.
  void keep() noexcept;
  /// Stores the next bytes of the payload, in order. The last bytes of the message are stored last.
  /// If `bytes` are not accessible, the request is interrupted; bytes in a ring always are
  /// accessible.
  [[nodiscard]] response place(std::span<const std::byte> bytes) noexcept;
  /// Returns at most `bytes` of the current READ from `offset` on, in one piece. Checks them at
  /// each call, because the region may have been deregistered.
  [[nodiscard]] response read(std::uint64_t offset, std::uint64_t bytes, segment& out) noexcept;
  // For paths whose requests arrive in packets. The message of the current request was kept.
  /// Adds `bytes` to the length of the current SEND, whose first packet does not contain the
  /// length.
  [[nodiscard]] response lengthen(std::uint32_t bytes) noexcept;
  /// Adds the immediate data in the last packet of the current request. For a WRITE, takes a
  /// receive request; without one, the request continues when the packet is received again.
  [[nodiscard]] response add_immediate(std::uint32_t immediate) noexcept;
  /// Marks the current request as solicited, because its last packet is solicited.
  void set_solicited() noexcept { kept_.solicited = true; }
  /// Refuses a packet that neither continues the current request nor begins another one.
  [[nodiscard]] response refuse_packet() noexcept;
  /// Returns bytes like `read`, for a READ that was finished: its data are sent, or sent again,
  /// while later requests arrive. If the region was deregistered, the caller decides whether to
  /// call `refuse_finished`.
  [[nodiscard]] response read_again(const message& what, std::uint64_t offset, std::uint64_t bytes,
                                    segment& out) noexcept;
  /// Returns the answer to a READ that was finished and whose data are not accessible.
  [[nodiscard]] static response unmapped(const message& what, std::uint64_t offset,
                                         std::uint64_t bytes) noexcept;
  /// Refuses a READ that was finished.
  void refuse_finished(const response& answer) noexcept;
  /// Refuses the request because `bytes` of the remote range from `offset` on are not accessible.
  [[nodiscard]] response refuse_unmapped(std::uint64_t offset, std::uint64_t bytes) noexcept;
  /// Abandons the request because the requester's memory at `piece` is not accessible. The receive
  /// request stays, as with an adapter that does not receive the rest of a message.
  [[nodiscard]] response interrupt(const std::byte* piece) noexcept;
  /// Ends the request: executes an atomic, completes a receive.
  [[nodiscard]] response finish() noexcept;
  /// Returns whether the next request is the first one, which raises an event if the queue pair is
  /// connected and in RTR.
  [[nodiscard]] bool awaits_first_request() const noexcept {
    return !established_.load(std::memory_order_relaxed);
  }
  /// Returns true between `begin` and `finish`.
  [[nodiscard]] bool busy() const noexcept { return busy_; }
  /// Returns the number of payload bytes of the current request that were placed.
  [[nodiscard]] std::uint64_t placed() const noexcept { return placed_; }
  /// Returns the message of the current request. Precondition: busy(), or no request began since.
  [[nodiscard]] const message& current() const noexcept { return *current_; }

  // For the queue pair.
  void start(std::uint32_t receive_psn) noexcept;  ///< INIT -> RTR
  void flush() noexcept;                           ///< -> ERR
  void clear() noexcept;                           ///< -> RESET

 private:
  friend class receive_run;
  [[nodiscard]] const transport_rules& rules() const noexcept;
  [[nodiscard]] responder_view view() const noexcept;
  [[nodiscard]] response reach(std::uint64_t offset, std::uint64_t bytes, segment& out) noexcept;
  [[nodiscard]] bool has_receive() noexcept;
  [[nodiscard]] response take_receive() noexcept;
  [[nodiscard]] response refuse_length(std::uint64_t room) noexcept;
  [[nodiscard]] response scatter_to_receive(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] response execute_atomic() noexcept;
  void conclude() noexcept;
  response refuse(const response& answer) noexcept;
  [[nodiscard]] response silence(const failure& why) const noexcept;
  [[nodiscard]] response no_receive() noexcept;
  [[nodiscard]] response refuse_misaligned() noexcept;
  [[nodiscard]] response refuse_receive(const failure& why) noexcept;
  void complete_receive(completion_status status, const failure& why) noexcept;
  [[nodiscard]] std::uint16_t sender_number() const noexcept;
  template <class Make>
  void push(bool solicited, Make&& make) noexcept;

  queue_pair& self_;
  shared_receive_queue* const shared_;  ///< the source of receive requests, or nullptr
  /// With a shared queue: the one request that was taken from it and is not completed.
  receive_queue queue_;
  std::uint64_t consumed_ = 0;  ///< receive requests below this index are completed
  std::uint32_t expected_psn_ = 0;
  bool busy_ = false;
  bool receive_taken_ = false;
  /// A first request arrived (communication established). Atomic: a failure of the send side
  /// publishes it.
  std::atomic<bool> established_{false};
  bool reported_last_ = false;  ///< last_request_reached was reported
  const message* current_ = &kept_;
  std::uint64_t placed_ = 0;
  std::uint32_t sge_index_ = 0;
  std::uint32_t sge_offset_ = 0;
  message kept_;  ///< of a request that arrives, or is answered, in several records
};

}  // namespace verbena::softdev
