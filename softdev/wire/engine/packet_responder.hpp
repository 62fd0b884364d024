// SPDX-License-Identifier: MIT
// The packets of requests that come to a queue pair over RC or UC, and the answers to them. The
// responder of the core checks and executes requests; this class checks the order of packets, keeps
// what repeated requests need, and remembers which answers are due.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "softdev/core/attributes.hpp"
#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time, with the receive lock of the queue pair. Does not allocate.
class packet_responder {
 public:
  /// `attributes`: those with which the queue pair begins to receive.
  packet_responder(queue_pair& self, const queue_pair_attributes& attributes,
                   std::uint32_t mtu) noexcept
      : self_(self),
        mtu_(mtu),
        first_number_(attributes.receive_psn),
        keeps_(std::max<std::uint32_t>(attributes.max_dest_rd_atomic, 1)),
        expected_psn_(attributes.receive_psn) {}

  /// Takes a packet of a request over RC. Its answer becomes due; acknowledgements of several
  /// packets become one.
  void receive(const packet& what) noexcept;
  /// Takes a packet of a request over UC, which has no answer.
  void receive_unreliable(const packet& what) noexcept;
  /// Puts responses to READs that are due, if `what` can change the memory behind them. If the
  /// output has no room, a READ may return later data: the order needs a fence then
  /// (IBTA 10.8.3.3).
  void put_data_before(const packet& what, packet_output& out) noexcept;
  /// Puts the answers that are due, in the order of their requests. Returns false if the output has
  /// no room for all.
  [[nodiscard]] bool put_answers(packet_output& out) noexcept;

 private:
  /// A READ or atomic operation that was executed; the peer may ask for its answer again.
  struct responder_resource {
    message what;
    std::uint32_t first_psn = 0;
    std::uint32_t msn = 0;
    std::uint64_t original = 0;
    bool due = false;
    bool sent = false;  ///< whole, at least once
    // Of a READ: the packets of the response that is due.
    std::uint32_t begin = 0;
    std::uint32_t next = 0;
    std::uint32_t end = 0;
    std::uint32_t end_bytes = 0;
  };
  /// A NAK that is due.
  struct refusal {
    std::uint8_t syndrome = 0;  ///< 0: none
    std::uint32_t psn = 0;
  };

  [[nodiscard]] message message_of(const packet& what, opcode op) const noexcept;
  [[nodiscard]] response begin(const packet& what, const packet_role& role) noexcept;
  [[nodiscard]] response go_on(const packet& what, const packet_role& role) noexcept;
  [[nodiscard]] response finish_packet(const packet& what, const packet_role& role) noexcept;
  [[nodiscard]] response execute_read(const packet& what) noexcept;
  [[nodiscard]] response execute_atomic(const packet& what) noexcept;
  [[nodiscard]] response take(const packet& what, const packet_role& role) noexcept;
  void settle(const packet& what, const packet_role& role, const response& answer) noexcept;
  void repeat(const packet& what, const packet_role& role) noexcept;
  void repeat_read(const packet& what) noexcept;
  [[nodiscard]] responder_resource* free_answer() noexcept;
  [[nodiscard]] responder_resource* find(std::uint32_t psn) noexcept;
  void finish_message() noexcept;
  [[nodiscard]] bool put_kept(packet_output& out) noexcept;
  [[nodiscard]] bool put_read(responder_resource& which, packet_output& out,
                              std::uint32_t& budget) noexcept;
  void refuse_read(responder_resource& which, std::uint32_t psn, const response& why,
                   packet_output& out) noexcept;
  bool put(packet made, operation kind, packet_output& out) noexcept;

  queue_pair& self_;
  const std::uint32_t mtu_;
  const std::uint32_t first_number_;  ///< the core counts requests from here
  const std::uint32_t keeps_;         ///< as many answers of READs and atomic operations
  std::uint32_t expected_psn_;
  std::uint32_t messages_ = 0;     ///< MSN
  opcode current_ = opcode::send;  ///< of the message whose packets come
  bool in_message_ = false;
  bool nak_sent_ = false;  ///< until the expected packet comes
  bool acknowledgement_due_ = false;
  refusal refusal_;
  std::uint64_t kept_count_ = 0;  ///< that were ever kept; each replaces the oldest
  bool some_due_ = false;         ///< of the kept answers; if not, put_kept has nothing to do
  std::array<responder_resource, limits::max_rd_atomic> responder_resources_;
};

}  // namespace verbena::softdev::wire
