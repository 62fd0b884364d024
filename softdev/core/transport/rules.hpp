// SPDX-License-Identifier: MIT
// The rules in which the transports differ, one row for each transport. Code outside this folder
// checks a rule, never the transport.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// How a path carries the requests of a queue pair.
enum class delivery_mode : std::uint8_t {
  stream,     ///< in order to the one peer; a long request takes several records
  datagrams,  ///< in order, each to its own destination or to a multicast group
  parts,      ///< in any order, each to its own destination, in parts that are answered one by one
};

/// The effect of a request that a responder refuses.
enum class refusal_effect : std::uint8_t {
  fails_responder,  ///< it is answered, and the responder's queue pair fails
  drops_message,    ///< it is not answered
  answers_only,     ///< it is answered, and the responder's queue pair continues
};

/// The rules of one transport. Threads: immutable value.
struct transport_rules {
  std::uint8_t opcodes = 0;   ///< a bit for each value of `opcode`; 0: the transport does not exist
  bool acknowledged = false;  ///< responders answer
  /// A queue pair has one peer. If not, each request names a destination and carries a Q_Key.
  bool connected = false;
  bool sequenced = false;  ///< a responder accepts requests only in the order of their numbers
  /// The payload begins with a GRH, and the destination can be a multicast group.
  bool routed = false;
  bool has_send_error = false;     ///< a request that fails stops only the send side (SQE)
  bool negotiates_reads = false;   ///< by max_rd_atomic and max_dest_rd_atomic
  bool numbers_addresses = false;  ///< completions contain the sender's address handle as its LID
  delivery_mode mode = delivery_mode::stream;
  refusal_effect refused = refusal_effect::drops_message;
  std::uint32_t longest_send = 0;   ///< bytes of a SEND, without route header
  std::uint32_t longest_other = 0;  ///< bytes of a READ or WRITE

  [[nodiscard]] constexpr bool exists() const noexcept { return opcodes != 0; }
  [[nodiscard]] constexpr bool carries(opcode op) const noexcept {
    return op <= opcode::fetch_add && (opcodes >> static_cast<unsigned>(op) & 1U) != 0;
  }
  [[nodiscard]] constexpr std::uint32_t longest(opcode op) const noexcept {
    return is_send(op) ? longest_send : longest_other;
  }
  /// Returns the bytes of a message in front of its payload.
  [[nodiscard]] constexpr std::uint32_t header_bytes() const noexcept {
    return routed ? grh_bytes : 0;
  }
  /// Returns whether a message of `op`, with its route header, can have `length` bytes.
  [[nodiscard]] constexpr bool may_have(opcode op, std::uint64_t length) const noexcept {
    return length >= header_bytes() && length - header_bytes() <= longest(op);
  }
};

namespace detail {

constexpr std::uint8_t mask_of(opcode op) noexcept {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(op));
}
inline constexpr std::uint8_t sends = mask_of(opcode::send) | mask_of(opcode::send_with_imm);
inline constexpr std::uint8_t writes =
    mask_of(opcode::rdma_write) | mask_of(opcode::rdma_write_with_imm);
inline constexpr std::uint8_t reads = mask_of(opcode::rdma_read);
inline constexpr std::uint8_t atomics = mask_of(opcode::compare_swap) | mask_of(opcode::fetch_add);

constexpr std::array<transport_rules, 8> make_rules() noexcept {
  std::array<transport_rules, 8> rules{};
  rules[static_cast<std::size_t>(transport::rc)] = {.opcodes = sends | writes | reads | atomics,
                                                    .acknowledged = true,
                                                    .connected = true,
                                                    .sequenced = true,
                                                    .negotiates_reads = true,
                                                    .refused = refusal_effect::fails_responder,
                                                    .longest_send = limits::max_message_bytes,
                                                    .longest_other = limits::max_message_bytes};
  // Over UC a lost message is not repeated, so responders do not check the sequence.
  rules[static_cast<std::size_t>(transport::uc)] = {.opcodes = sends | writes,
                                                    .connected = true,
                                                    .has_send_error = true,
                                                    .negotiates_reads = true,
                                                    .longest_send = limits::max_message_bytes,
                                                    .longest_other = limits::max_message_bytes};
  rules[static_cast<std::size_t>(transport::ud)] = {.opcodes = sends,
                                                    .routed = true,
                                                    .has_send_error = true,
                                                    .negotiates_reads = true,
                                                    .mode = delivery_mode::datagrams,
                                                    .longest_send = limits::max_datagram_bytes};
  // The invalid request of one sender does not affect other senders.
  rules[static_cast<std::size_t>(transport::srd)] = {
      .opcodes = sends | writes | reads,
      .acknowledged = true,
      .numbers_addresses = true,
      .mode = delivery_mode::parts,
      .refused = refusal_effect::answers_only,
      .longest_send = limits::max_reliable_datagram_bytes,
      .longest_other = limits::max_message_bytes};
  return rules;
}
inline constexpr std::array<transport_rules, 8> all_rules = make_rules();

}  // namespace detail

/// Returns the rules of `kind`. The rules of a transport that does not exist permit no opcode.
[[nodiscard]] constexpr const transport_rules& rules_of(transport kind) noexcept {
  return detail::all_rules[static_cast<std::size_t>(kind) & 7U];
}

}  // namespace verbena::softdev
