// SPDX-License-Identifier: MIT
// The receive side of a queue pair: checks requests, takes receive work requests, places payload,
// executes reads and atomics. A request comes whole or in fragments: begin, place…, finish.
#pragma once

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

/// Threads: one thread at a time: all functions want the receive lock of the queue pair held, and
/// those that take a request an access epoch. Does not allocate.
class responder {
 public:
  /// `memory`: that of the receive queue, or nullptr.
  responder(queue_pair& self, const queue_pair_options& options, std::byte* memory);

  [[nodiscard]] receive_queue& queue() noexcept { return queue_; }

  /// Checks a request. `done` means: go on with `place` and `finish` (sends, writes), `read`, or
  /// `finish` at once (atomics). Anything else is the answer, and the request is over. `what` stays
  /// valid until the request is over, or until `keep`.
  [[nodiscard]] response begin(const message& what) noexcept;
  /// Copies the message of a request that is not over, so that the one of `begin` may go.
  void keep() noexcept;
  /// The next bytes of the payload, in order. The last bytes of the message are stored last. If
  /// `bytes` are not accessible, which in a ring they always are, the request is interrupted.
  [[nodiscard]] response place(std::span<const std::byte> bytes) noexcept;
  /// Bytes of the read that was begun, from `offset` on; checked anew at each call because the
  /// region may be gone by now. At most `bytes` of them, in one piece.
  [[nodiscard]] response read(std::uint64_t offset, std::uint64_t bytes, segment& out) noexcept;
  // For paths whose requests come in packets. The message of the current request was kept.
  /// The payload of the current SEND is longer by `bytes`: its first packet does not contain the
  /// length.
  [[nodiscard]] response lengthen(std::uint32_t bytes) noexcept;
  /// The last packet of the current request has immediate data. Takes a receive request if it is a
  /// WRITE; if there is none, the request continues when the packet is received again.
  [[nodiscard]] response add_immediate(std::uint32_t immediate) noexcept;
  /// The last packet of the current request is solicited.
  void set_solicited() noexcept { kept_.solicited = true; }
  /// Refuses a packet that does not fit the current request, or begins none.
  [[nodiscard]] response refuse_packet() noexcept;
  /// As `read`, for a READ that was finished: its data are sent, or sent again, while later
  /// requests come. If the region is gone, the caller decides whether to `refuse_finished`.
  [[nodiscard]] response read_again(const message& what, std::uint64_t offset, std::uint64_t bytes,
                                    segment& out) noexcept;
  /// The answer to a READ that was finished if its data are not accessible.
  [[nodiscard]] static response unmapped(const message& what, std::uint64_t offset,
                                         std::uint64_t bytes) noexcept;
  /// Refuses a READ that was finished.
  void refuse_finished(const response& answer) noexcept;
  /// Refuses the request because `bytes` of the remote range from `offset` on are not accessible.
  [[nodiscard]] response refuse_unmapped(std::uint64_t offset, std::uint64_t bytes) noexcept;
  /// Forgets the request because the requester's memory at `piece` is not accessible. As with an
  /// adapter that receives no more of a message, the receive request stays.
  [[nodiscard]] response interrupt(const std::byte* piece) noexcept;
  /// Ends the request: executes an atomic, completes a receive.
  [[nodiscard]] response finish() noexcept;
  /// True between `begin` and `finish`.
  [[nodiscard]] bool busy() const noexcept { return busy_; }
  /// Payload bytes of the current request that were placed.
  [[nodiscard]] std::uint64_t placed() const noexcept { return placed_; }
  /// The message of the current request. Precondition: busy(), or none began since it was.
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
  shared_receive_queue* const shared_;  ///< where receive requests come from; or nullptr
  /// With a shared queue: the one request that was taken out of it and is not completed.
  receive_queue queue_;
  std::uint64_t consumed_ = 0;  ///< receive requests completed below
  std::uint32_t expected_psn_ = 0;
  bool busy_ = false;
  bool receive_taken_ = false;
  bool heard_ = false;      ///< a first request came (communication established)
  bool told_last_ = false;  ///< that no more will be taken from the shared queue
  const message* current_ = &kept_;
  std::uint64_t placed_ = 0;
  std::uint32_t sge_index_ = 0;
  std::uint32_t sge_offset_ = 0;
  message kept_;  ///< of a request that comes in several records, or is answered in several
};

}  // namespace verbena::softdev
