// SPDX-License-Identifier: MIT
// A packet of RoCE v2 from the base transport header (BTH) on: its fields, and its bytes
// (IBTA 9.2, 9.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/wire/opcode.hpp"

namespace verbena::softdev::wire {

inline constexpr std::size_t icrc_bytes = 4;
inline constexpr std::size_t congestion_payload_bytes = 16;  ///< of a CNP; zeros
inline constexpr std::uint32_t max_message_bytes = 1U << 31U;
inline constexpr std::uint32_t max_24_bits = 0xff'ffff;  ///< of queue pair numbers, PSN and MSN

/// The memory that a READ or WRITE accesses (RETH).
struct remote_range {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;  ///< of the message: at most max_message_bytes

  bool operator==(const remote_range&) const = default;
};

/// The operands of an atomic (AtomicETH).
struct atomic_operands {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;

  bool operator==(const atomic_operands&) const = default;
};

/// The kinds of answers: the upper three bits of a syndrome.
inline constexpr std::uint8_t syndrome_ack = 0x1f;      ///< without credits
inline constexpr std::uint8_t syndrome_rnr_nak = 0x20;  ///< plus the code of the RNR timer
inline constexpr std::uint8_t syndrome_sequence_error = 0x60;
inline constexpr std::uint8_t syndrome_invalid_request = 0x61;
inline constexpr std::uint8_t syndrome_access_error = 0x62;
inline constexpr std::uint8_t syndrome_operation_error = 0x63;

/// NAKs after which the request is sent again.
enum class nak_kind : std::uint8_t { none, not_ready, sequence };

/// What a responder says of a request (AETH).
struct acknowledgement {
  std::uint8_t syndrome = syndrome_ack;
  std::uint32_t msn = 0;  ///< message sequence number

  bool operator==(const acknowledgement&) const = default;
};

/// The sender of a datagram (DETH).
struct datagram_header {
  std::uint32_t qkey = 0;
  std::uint32_t source_qpn = 0;

  bool operator==(const datagram_header&) const = default;
};

/// A packet. Only those members count that packets of its opcode have (format_of). The payload is
/// borrowed.
struct packet {
  packet_opcode opcode{};
  bool solicited = false;
  bool migrated = false;  ///< MigReq
  bool fecn = false;      ///< congestion: forward, backward
  bool becn = false;
  bool ack_requested = false;
  std::uint16_t pkey = 0xffff;
  std::uint32_t destination_qpn = 0;
  std::uint32_t psn = 0;
  datagram_header datagram;
  remote_range remote;
  atomic_operands atomic;
  acknowledgement answer;
  std::uint64_t original = 0;  ///< the value before an atomic
  std::uint32_t immediate = 0;
  std::uint32_t invalidated_key = 0;
  std::span<const std::byte> payload;  ///< without pad
};

/// Returns the kind of the NAK that a packet is; `none` for other packets.
[[nodiscard]] constexpr nak_kind nak_of(const packet& what) noexcept {
  if (operation_of(what.opcode) != operation::acknowledge ||
      !format_of(what.opcode).acknowledgement)
    return nak_kind::none;
  constexpr std::uint8_t kind_mask = 0xe0;
  if ((what.answer.syndrome & kind_mask) == syndrome_rnr_nak) return nak_kind::not_ready;
  return what.answer.syndrome == syndrome_sequence_error ? nak_kind::sequence : nak_kind::none;
}

/// What is wrong with the bytes of a packet.
enum class packet_fault : std::uint8_t {
  none,
  too_short,            ///< for BTH and ICRC
  length_not_aligned,   ///< to four bytes
  version_unknown,      ///< TVer is not 0
  opcode_unknown,       ///< reserved, or of a transport that is not supported
  header_missing,       ///< too short for the headers of the opcode
  pad_exceeds_payload,  ///< the payload has fewer bytes than the pad count
  payload_not_allowed,  ///< packets of the opcode have none, or, for a CNP, one of another length
  payload_exceeds_mtu,
  message_too_long,  ///< RETH: more than max_message_bytes
  // Of the network headers (network.hpp):
  network_header_invalid,  ///< version, header length, addresses
  network_length_wrong,    ///< of IP or UDP
  network_checksum_wrong,
  network_fragment,
  not_roce,  ///< not UDP, or another port
};

/// Reads a packet of BTH, …, payload, pad and ICRC, whose ICRC it does not check (network.hpp).
/// The payload of `out` refers to `bytes`. Reserved bits and pad bytes are ignored. If the result
/// is not `none`, `out` has no meaning.
[[nodiscard]] packet_fault parse(std::span<const std::byte> bytes, std::uint32_t mtu,
                                 packet& out) noexcept;

/// Returns the bytes of the packet with pad and ICRC.
[[nodiscard]] std::size_t encoded_bytes(const packet& what) noexcept;

/// Writes the packet without its ICRC: encoded_bytes(what) - icrc_bytes. Returns the number of
/// bytes, or 0 if `out` is shorter. Preconditions: the opcode has a format; numbers of 24 bits have
/// no more; there is no payload where the format has none.
[[nodiscard]] std::size_t encode(const packet& what, std::span<std::byte> out) noexcept;

}  // namespace verbena::softdev::wire
