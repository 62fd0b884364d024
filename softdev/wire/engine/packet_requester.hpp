// SPDX-License-Identifier: MIT
// The requests of a queue pair over RC or UC as packets, and the answers to them. The requester of
// the core keeps the send queue, retries after RNR NAKs and completions; this stream numbers
// packets, repeats them and tells the requester what the answers mean.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/engine/congestion_window.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time, with the send lock of the queue pair. Does not allocate.
class packet_requester {
 public:
  /// No more packets are sent without an acknowledgement; the kernel's rxe has the same limit.
  static constexpr std::uint32_t window = 128;

  packet_requester(queue_pair& self, std::uint32_t mtu, packet_output& out) noexcept;

  /// See remote_path::submit.
  [[nodiscard]] response submit(const message& what, std::span<const segment> local) noexcept;
  /// Takes an acknowledgement, or a response to a READ or an atomic operation. The caller runs the
  /// requester afterwards.
  void receive(const packet& what) noexcept;
  /// The way to the peer, or from it, is congested. Returns whether fewer packets are in flight
  /// from now on.
  bool handle_cnp() noexcept { return begun_ && flow_.congestion.notify(oldest_psn(), sent_end_); }
  /// Sends again what is not acknowledged if the deadline is reached. The caller runs the requester
  /// afterwards.
  void expire() noexcept;

  /// When `expire` is due; `never` if no packet waits for an answer.
  [[nodiscard]] time_ns deadline() const noexcept { return timer_.deadline; }
  /// True if the last `submit` found no room in the output.
  [[nodiscard]] bool waits_for_room() const noexcept { return flow_.waits_for_room; }

 private:
  /// A request whose packets were sent.
  struct sent_request {
    std::uint32_t number = 0;  ///< the sequence number of the core, which counts requests
    std::uint32_t first_psn = 0;
    std::uint32_t packets = 1;       ///< sequence numbers: of a READ, those of the response
    std::uint32_t sent = 0;          ///< packets, since it was submitted last
    std::uint32_t acknowledged = 0;  ///< packets; of a READ, those that came
    std::uint32_t length = 0;
    std::uint16_t attempt = 0;
    softdev::opcode opcode = opcode::send;

    [[nodiscard]] bool complete() const noexcept { return acknowledged == packets; }
  };

  /// What was done since something was acknowledged.
  struct recovery {
    std::uint8_t retries = 0;
    std::uint8_t early = 0;  ///< repetitions before the timeout, which are no retries
    bool repairing = false;  ///< packets were sent again
  };
  /// How long answers take. A packet that was sent again is not measured: the answer can be to
  /// each.
  struct round_trip {
    time_ns smoothed = 0;  ///< 0: not known
    time_ns deviation = 0;
    time_ns started = never;   ///< a measurement is running
    std::uint8_t backoff = 0;  ///< doublings since the last measurement: it may be too short now
    std::uint32_t end_psn = 0;

    void add(time_ns sample) noexcept;
  };
  /// When the next answer is late.
  struct answer_timer {
    time_ns deadline = never;
    bool is_early = false;  ///< before the ACK timeout
    round_trip usual;
  };
  /// What keeps packets from being sent.
  struct flow {
    congestion_window congestion{window};
    bool waits_for_room = false;    ///< in the output
    std::uint32_t ack_req_end = 0;  ///< after the last packet that asks for an acknowledgement
  };
  /// The packet for which the responder sent a NAK, and failed.
  struct fatal_nak {
    std::uint8_t syndrome = 0;  ///< 0: none
    std::uint32_t psn = 0;
  };

  [[nodiscard]] sent_request& at(std::uint32_t index) noexcept {
    return requests_[(begin_ + index) % window];
  }
  [[nodiscard]] std::uint32_t oldest_psn() noexcept;
  /// True if the requester has a request in flight that is not acknowledged. An acknowledged one is
  /// in flight only while packets of it wait for room to be sent again; then it is the only one.
  [[nodiscard]] bool has_outstanding() noexcept { return live_ > 0 && !at(0).complete(); }
  [[nodiscard]] response submit_unreliable(const message& what,
                                           std::span<const segment> local) noexcept;
  [[nodiscard]] std::uint32_t room_from(std::uint32_t psn) noexcept;
  [[nodiscard]] bool must_request_ack(std::uint32_t oldest, std::uint32_t psn) const noexcept;
  [[nodiscard]] bool may_put() noexcept;
  [[nodiscard]] response put_packets(sent_request& which, const message& what,
                                     std::span<const segment> local) noexcept;
  void put_read_or_atomic(sent_request& which, const message& what) noexcept;
  [[nodiscard]] bool put(const packet& made) noexcept;
  void note_sent(std::uint32_t end_psn) noexcept;
  void pop() noexcept;

  void receive_acknowledgement(const packet& what) noexcept;
  void receive_nak(const packet& what) noexcept;
  void apply_fatal_nak() noexcept;
  [[nodiscard]] bool is_refused(const sent_request& which) const noexcept;
  [[nodiscard]] response refusal() const noexcept;
  void end_badly_answered(const packet& what) noexcept;
  void receive_data(const packet& what) noexcept;
  void receive_original(const packet& what) noexcept;
  [[nodiscard]] sent_request* find_answered(const packet& what) noexcept;
  [[nodiscard]] bool acknowledge_before(std::uint32_t end_psn) noexcept;
  void answer(const sent_request& which, const response& what) noexcept;
  void end_answered(const response& what) noexcept;
  void end_oldest(const response& what) noexcept;
  void repair() noexcept;
  void go_back() noexcept;
  void retransmit() noexcept;
  void fail_retries_exceeded() noexcept;
  void note_progress() noexcept;
  void start_timer() noexcept;
  [[nodiscard]] time_ns rtt_timeout() const noexcept;
  void measure_answer() noexcept;

  queue_pair& self_;
  packet_output& out_;
  const std::uint32_t mtu_;
  const bool acknowledged_;     ///< the transport is RC
  std::uint32_t next_psn_ = 0;  ///< of the next new request
  std::uint32_t sent_end_ = 0;  ///< after the last sequence number that was ever sent
  std::uint32_t begin_ = 0;     ///< of the ring
  std::uint32_t count_ = 0;     ///< requests in the ring
  std::uint32_t live_ = 0;      ///< the first of them, which the requester has in flight
  recovery since_progress_;
  fatal_nak refused_;
  bool begun_ = false;
  flow flow_;
  answer_timer timer_;
  std::array<sent_request, window> requests_;
};

}  // namespace verbena::softdev::wire
