// SPDX-License-Identifier: MIT
// A RoCE v2 packet from the base transport header (BTH) to the ICRC: its fields, parser and encoder
// (IBTA 9.2, 9.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/wire/opcode.hpp"

namespace verbena::softdev::wire {

inline constexpr std::size_t icrc_bytes = 4;
inline constexpr std::size_t largest_mtu = 4096;
inline constexpr std::size_t congestion_payload_bytes = 16;  ///< of a CNP; all zero
inline constexpr std::uint32_t max_message_bytes = 1U << 31U;
inline constexpr std::uint32_t max_24_bits = 0xff'ffff;  ///< for queue pair numbers, PSNs and MSNs

/// The memory that a READ or WRITE accesses (RETH).
struct remote_range {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;  ///< of the message; at most max_message_bytes

  bool operator==(const remote_range&) const = default;
};

/// The operands of an atomic operation (AtomicETH).
struct atomic_operands {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;

  bool operator==(const atomic_operands&) const = default;
};

/// Syndromes of an AETH.
inline constexpr std::uint8_t syndrome_ack = 0x1f;      ///< ACK without credits
inline constexpr std::uint8_t syndrome_rnr_nak = 0x20;  ///< plus the RNR timer code
inline constexpr std::uint8_t syndrome_sequence_error = 0x60;
inline constexpr std::uint8_t syndrome_invalid_request = 0x61;
inline constexpr std::uint8_t syndrome_access_error = 0x62;
inline constexpr std::uint8_t syndrome_operation_error = 0x63;

inline constexpr std::uint8_t syndrome_kind_mask = 0xe0;
inline constexpr std::uint8_t syndrome_value_mask = 0x1f;  ///< credits, RNR timer or NAK code

[[nodiscard]] constexpr bool is_ack_syndrome(std::uint8_t syndrome) noexcept {
  return (syndrome & syndrome_kind_mask) == 0;
}

/// The NAKs after which the requester retransmits.
enum class nak_kind : std::uint8_t { none, not_ready, sequence };

/// The response status of a responder (AETH).
struct acknowledgement {
  std::uint8_t syndrome = syndrome_ack;
  std::uint32_t msn = 0;  ///< message sequence number

  bool operator==(const acknowledgement&) const = default;
};

/// The header of a datagram (DETH).
struct datagram_header {
  std::uint32_t qkey = 0;
  std::uint32_t source_qpn = 0;

  bool operator==(const datagram_header&) const = default;
};

/// A packet. A member is valid only if packets of the opcode have its header (format_of). The
/// payload is borrowed.
struct packet {
  packet_opcode opcode{};
  bool solicited = false;
  bool migrated = false;  ///< MigReq
  bool fecn = false;      ///< forward congestion notification
  bool becn = false;
  bool ack_requested = false;
  std::uint16_t pkey = 0xffff;
  std::uint32_t destination_qpn = 0;
  std::uint32_t psn = 0;
  datagram_header datagram;
  remote_range remote;
  atomic_operands atomic;
  acknowledgement answer;
  std::uint64_t original = 0;  ///< the value before the atomic operation
  std::uint32_t immediate = 0;
  std::uint32_t invalidated_key = 0;
  std::span<const std::byte> payload;  ///< without pad bytes
};

/// Returns the kind of an RNR NAK or a NAK for a PSN sequence error. Returns `none` for all other
/// packets.
[[nodiscard]] constexpr nak_kind nak_of(const packet& what) noexcept {
  if (operation_of(what.opcode) != operation::acknowledge ||
      !format_of(what.opcode).acknowledgement)
    return nak_kind::none;
  if ((what.answer.syndrome & syndrome_kind_mask) == syndrome_rnr_nak) return nak_kind::not_ready;
  return what.answer.syndrome == syndrome_sequence_error ? nak_kind::sequence : nak_kind::none;
}

/// Why a packet is malformed.
enum class packet_fault : std::uint8_t {
  none,
  too_short,            ///< for BTH and ICRC
  length_not_aligned,   ///< not a multiple of four bytes
  version_unknown,      ///< TVer is not 0
  opcode_unknown,       ///< reserved, or of an unsupported transport
  header_missing,       ///< too short for the headers of the opcode
  pad_exceeds_payload,  ///< the pad count exceeds the length of the payload
  payload_not_allowed,  ///< the opcode has no payload, or the payload of a CNP has a wrong length
  payload_exceeds_mtu,
  message_too_long,  ///< the RETH length exceeds max_message_bytes
  // Faults of the network headers (network.hpp):
  network_header_invalid,  ///< wrong version, header length or address
  network_length_wrong,    ///< IP or UDP length
  network_checksum_wrong,
  network_fragment,
  not_roce,  ///< not UDP, or another destination port
};

/// Parses a packet from BTH to ICRC. Does not check the ICRC (network.hpp). The payload of `out`
/// refers to `bytes`. Reserved bits and pad bytes are ignored. If the result is not `none`, `out`
/// is unspecified.
[[nodiscard]] packet_fault parse(std::span<const std::byte> bytes, std::uint32_t mtu,
                                 packet& out) noexcept;

/// Returns the length of the packet in bytes, including pad and ICRC.
[[nodiscard]] std::size_t encoded_bytes(const packet& what) noexcept;

/// Writes the packet without its ICRC: encoded_bytes(what) - icrc_bytes. Returns the number of
/// bytes. Returns 0 if `out` is too short or if the payload is not accessible. Preconditions: the
/// opcode has a format; 24-bit fields have at most 24 bits; the payload is empty if the format has
/// no payload.
[[nodiscard]] std::size_t encode(const packet& what, std::span<std::byte> out) noexcept;

}  // namespace verbena::softdev::wire
