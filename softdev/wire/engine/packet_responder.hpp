// SPDX-License-Identifier: MIT
// The responder side of RC and UC packets. The core's responder checks and executes requests. This
// class checks PSNs, keeps the data that responses to duplicate requests need, and records which
// responses are due.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "softdev/core/attributes.hpp"
#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/engine/due_ranges.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/engine/reorder_queue.hpp"
#include "softdev/wire/engine/selective_packets.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time, with the receive lock of the queue pair. Does not allocate,
/// except for buffers of the pool.
class packet_responder {
 public:
  /// `attributes`: the attributes with which the queue pair becomes ready to receive. `pool`
  /// outlives the responder.
  packet_responder(queue_pair& self, const queue_pair_attributes& attributes, std::uint32_t mtu,
                   reorder_pool& pool) noexcept
      : self_(self),
        mtu_(mtu),
        first_number_(attributes.receive_psn),
        expected_psn_(attributes.receive_psn),
        gap_{.kept = reorder_queue(pool)} {}

  /// Processes a request packet of RC. Its response becomes due. The ACKs of several packets are
  /// coalesced. Before a packet that can change memory is executed, sends the READ responses that
  /// are due. If the output has no room, a READ can return later data: the requester needs a fence
  /// for this order (IBTA 10.8.3.3).
  void receive(const packet& what, packet_output& out) noexcept;
  /// Processes a request packet of UC, which has no response.
  void receive_unreliable(const packet& what) noexcept;
  /// From now on, packets after a missing one are kept, and selective acknowledgements report it.
  /// `expected`: the PSN that the peer takes for the expected one. Has no effect if this cannot be:
  /// the peer has offered selective repeat to an earlier connection.
  void use_selective_repeat(std::uint32_t expected) noexcept;
  /// Like use_selective_repeat(), but keeps and reports more packets. A grant becomes due.
  void use_larger_window(std::uint32_t expected) noexcept;
  /// Returns whether the only response that is due is the ACK of one message, which has one packet
  /// and a completion. The ACKs of other messages are not postponed, because the peer may need them
  /// to send more.
  [[nodiscard]] bool can_postpone() const noexcept;
  /// Sends the responses that are due, in the order of their requests. Returns false if the output
  /// does not have room for all of them. In ERR, also drops the kept packets.
  [[nodiscard]] bool put_answers(packet_output& out) noexcept;
  /// Sends the ACK or NAK that is due, without access to memory of the program. Sends nothing if a
  /// response to a READ or atomic operation is due, or, after the program has moved the queue pair
  /// to ERR, if it is not the ACK of a message whose completion the program can have. Returns false
  /// if there is no room.
  [[nodiscard]] bool put_last_answer(packet_output& out) noexcept;

 private:
  /// An executed READ or atomic operation. The peer can request its response again.
  struct responder_resource {
    message what;
    std::uint32_t first_psn = 0;
    std::uint32_t msn = 0;
    std::uint64_t original = 0;
    bool due = false;
    bool sent = false;  ///< the end of the response was sent at least once
    due_ranges ranges;  ///< of a READ that is due
  };
  struct acknowledgement {
    bool due = false;
    bool owed = false;   ///< it is due, and the program can have the completion of its message
    bool alone = false;  ///< that of one packet with a completion, which arrived in its order
    std::uint32_t last_msn = 0;  ///< MSN of the last ACK or NAK
  };
  /// A NAK that is due.
  struct refusal {
    std::uint8_t syndrome = 0;  ///< 0: none
    std::uint32_t psn = 0;
  };
  /// Why the expected packet is retransmitted.
  enum class awaited : std::uint8_t {
    nothing,  ///< it has not been sent yet, as far as is known
    missing,  ///< a later packet has arrived
    refused   ///< the responder was not ready
  };
  /// The state of a gap in the received PSNs.
  struct gap {
    reorder_queue kept;
    awaited expected = awaited::nothing;  ///< if not `nothing`, no further NAK is sent
    bool selective = false;               ///< the peer processes selective acknowledgements
    bool report_due = false;              ///< a selective acknowledgement is due
    bool reported = false;                ///< one was sent for this gap
    bool grant_due = false;               ///< of a larger window
    std::uint32_t reach = base_reach;     ///< the PSNs that are kept
  };

  static constexpr std::uint32_t read_packets_per_call = 64;

  [[nodiscard]] message message_of(const packet& what, opcode op) const noexcept;
  [[nodiscard]] response begin(const packet& what, const packet_role& role) noexcept;
  [[nodiscard]] response go_on(const packet& what, const packet_role& role) noexcept;
  [[nodiscard]] response finish_packet(const packet& what, const packet_role& role) noexcept;
  [[nodiscard]] response execute_read(const packet& what) noexcept;
  [[nodiscard]] response execute_atomic(const packet& what) noexcept;
  [[nodiscard]] response take(const packet& what, const packet_role& role) noexcept;
  void execute(const packet& what, const packet_role& role, packet_output& out) noexcept;
  void note_delivery(const packet_role& role) noexcept;
  void settle(const packet& what, const packet_role& role, const response& answer) noexcept;
  void receive_after_gap(const packet& what) noexcept;
  void execute_kept(std::uint32_t executed, packet_output& out) noexcept;
  void end_gap() noexcept;
  [[nodiscard]] bool put_status(packet_output& out) noexcept;
  [[nodiscard]] bool is_stopped() const noexcept;
  void put_data_before(const packet& what, packet_output& out) noexcept;
  void put_report(packet_output& out) noexcept;
  [[nodiscard]] bool put_grant(packet_output& out) noexcept;
  void repeat(const packet& what, const packet_role& role) noexcept;
  void repeat_read(const packet& what) noexcept;
  [[nodiscard]] std::uint32_t depth() const noexcept;
  [[nodiscard]] responder_resource& kept(std::uint64_t number) noexcept {
    return responder_resources_[number % responder_resources_.size()];
  }
  [[nodiscard]] responder_resource* free_answer() noexcept;
  [[nodiscard]] responder_resource* find(std::uint32_t psn) noexcept;
  void finish_message() noexcept;
  [[nodiscard]] bool put_kept(packet_output& out) noexcept;
  [[nodiscard]] bool put_read(responder_resource& which, packet_output& out) noexcept;
  [[nodiscard]] bool put_read_packet(responder_resource& which, packet_output& out) noexcept;
  void refuse_read(responder_resource& which, std::uint32_t psn, const response& why,
                   packet_output& out) noexcept;
  bool put(packet made, operation kind, packet_output& out) noexcept;

  queue_pair& self_;
  const std::uint32_t mtu_;
  const std::uint32_t first_number_;  ///< the sequence number of the first request in the core
  std::uint32_t expected_psn_;
  std::uint32_t messages_ = 0;     ///< MSN
  opcode current_ = opcode::send;  ///< the opcode of the message that is being received
  bool in_message_ = false;
  acknowledgement ack_;
  refusal refusal_;
  gap gap_;
  std::uint64_t kept_count_ = 0;  ///< the responses kept in total; each one replaces the oldest
  bool some_due_ = false;         ///< if false, no kept response is due
  /// The packets of READ responses that can be sent before the next put_answers(): between the
  /// parts of a long response, the packets of all queue pairs are received.
  std::uint32_t budget_ = read_packets_per_call;
  std::array<responder_resource, limits::max_rd_atomic> responder_resources_;
};

}  // namespace verbena::softdev::wire
