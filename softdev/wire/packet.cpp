// SPDX-License-Identifier: MIT
#include "softdev/wire/packet.hpp"

#include <algorithm>
#include <cstring>

#include "softdev/core/copy.hpp"
#include "softdev/wire/byte_cursor.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev::wire {
namespace {

// Byte 1 of the BTH.
constexpr unsigned solicited_bit = 0x80;
constexpr unsigned migrated_bit = 0x40;
constexpr unsigned pad_shift = 4;
constexpr unsigned version_mask = 0x0f;
// Byte 4 of the BTH.
constexpr unsigned fecn_bit = 0x80;
constexpr unsigned becn_bit = 0x40;
// Byte 8 of the BTH.
constexpr unsigned ack_bit = 0x80;

constexpr std::size_t bth_bytes = 12;

constexpr std::size_t pad_of(std::size_t payload_bytes) noexcept {
  return (0 - payload_bytes) & 3U;
}

void read_base(byte_source& from, packet& out) noexcept {
  out.opcode = static_cast<packet_opcode>(from.take<std::uint8_t>());
  const unsigned flags = from.take<std::uint8_t>();
  out.solicited = (flags & solicited_bit) != 0;
  out.migrated = (flags & migrated_bit) != 0;
  out.pkey = from.take<std::uint16_t>();
  const auto destination = from.take<std::uint32_t>();
  out.fecn = (destination >> 24U & fecn_bit) != 0;
  out.becn = (destination >> 24U & becn_bit) != 0;
  out.destination_qpn = destination & max_24_bits;
  const auto sequence = from.take<std::uint32_t>();
  out.ack_requested = (sequence >> 24U & ack_bit) != 0;
  out.psn = sequence & max_24_bits;
}

void read_extended(byte_source& from, const packet_format& format, packet& out) noexcept {
  if (format.datagram) {
    out.datagram.qkey = from.take<std::uint32_t>();
    out.datagram.source_qpn = from.take<std::uint32_t>() & max_24_bits;
  }
  if (format.remote) {
    out.remote.address = from.take<std::uint64_t>();
    out.remote.key = from.take<std::uint32_t>();
    out.remote.length = from.take<std::uint32_t>();
  }
  if (format.atomic) {
    out.atomic.address = from.take<std::uint64_t>();
    out.atomic.key = from.take<std::uint32_t>();
    out.atomic.swap_or_add = from.take<std::uint64_t>();
    out.atomic.compare = from.take<std::uint64_t>();
  }
  if (format.acknowledgement) {
    const auto word = from.take<std::uint32_t>();
    out.answer = {.syndrome = static_cast<std::uint8_t>(word >> 24U), .msn = word & max_24_bits};
  }
  if (format.original) out.original = from.take<std::uint64_t>();
  if (format.immediate) out.immediate = from.take<std::uint32_t>();
  if (format.invalidate) out.invalidated_key = from.take<std::uint32_t>();
}

void write_base(const packet& what, byte_sink& to) noexcept {
  const auto flag = [](bool set, unsigned bit) { return set ? bit : 0U; };
  to.put(static_cast<std::uint8_t>(what.opcode));
  to.put(static_cast<std::uint8_t>(flag(what.solicited, solicited_bit) |
                                   flag(what.migrated, migrated_bit) |
                                   pad_of(what.payload.size()) << pad_shift));
  to.put(what.pkey);
  to.put((flag(what.fecn, fecn_bit) | flag(what.becn, becn_bit)) << 24U | what.destination_qpn);
  to.put(flag(what.ack_requested, ack_bit) << 24U | what.psn);
}

void write_extended(const packet& what, const packet_format& format, byte_sink& to) noexcept {
  if (format.datagram) {
    to.put(what.datagram.qkey);
    to.put(what.datagram.source_qpn);
  }
  if (format.remote) {
    to.put(what.remote.address);
    to.put(what.remote.key);
    to.put(what.remote.length);
  }
  if (format.atomic) {
    to.put(what.atomic.address);
    to.put(what.atomic.key);
    to.put(what.atomic.swap_or_add);
    to.put(what.atomic.compare);
  }
  if (format.acknowledgement) to.put(std::uint32_t{what.answer.syndrome} << 24U | what.answer.msn);
  if (format.original) to.put(what.original);
  if (format.immediate) to.put(what.immediate);
  if (format.invalidate) to.put(what.invalidated_key);
}

packet_fault check_payload(const packet& what, const packet_format& format, std::uint32_t mtu) {
  const std::size_t bytes = what.payload.size();
  if (!format.payload && bytes != 0) return packet_fault::payload_not_allowed;
  if (what.opcode == packet_opcode::congestion_notification)
    return bytes == congestion_payload_bytes ? packet_fault::none
                                             : packet_fault::payload_not_allowed;
  return bytes <= mtu ? packet_fault::none : packet_fault::payload_exceeds_mtu;
}

}  // namespace

packet_fault parse(std::span<const std::byte> bytes, std::uint32_t mtu, packet& out) noexcept {
  if (bytes.size() < bth_bytes + icrc_bytes) return packet_fault::too_short;
  if (bytes.size() % 4 != 0) return packet_fault::length_not_aligned;
  const auto flags = std::to_integer<unsigned>(bytes[1]);
  if ((flags & version_mask) != 0) return packet_fault::version_unknown;
  const std::size_t pad = flags >> pad_shift & 3U;
  const packet_format& format = format_of(static_cast<packet_opcode>(bytes[0]));
  if (!format.known) return packet_fault::opcode_unknown;
  const std::size_t headers = format.header_bytes();
  if (bytes.size() < headers + icrc_bytes) return packet_fault::header_missing;
  const std::size_t padded = bytes.size() - headers - icrc_bytes;
  if (padded < pad) return packet_fault::pad_exceeds_payload;
  byte_source from(bytes);
  out = {};
  read_base(from, out);
  read_extended(from, format, out);
  out.payload = bytes.subspan(headers, padded - pad);
  if (out.remote.length > max_message_bytes) return packet_fault::message_too_long;
  return check_payload(out, format, mtu);
}

std::size_t encoded_bytes(const packet& what) noexcept {
  return format_of(what.opcode).header_bytes() + what.payload.size() + pad_of(what.payload.size()) +
         icrc_bytes;
}

std::size_t encode(const packet& what, std::span<std::byte> out) noexcept {
  const packet_format& format = format_of(what.opcode);
  VERBENA_ASSERT(format.known, "a packet that is encoded has an opcode with a format");
  VERBENA_ASSERT(format.payload || what.payload.empty(), "packets of the opcode have no payload");
  VERBENA_ASSERT(
      (what.destination_qpn | what.psn | what.answer.msn | what.datagram.source_qpn) <= max_24_bits,
      "queue pair numbers, PSN and MSN have 24 bits");
  const std::size_t bytes = encoded_bytes(what) - icrc_bytes;
  if (out.size() < bytes) return 0;
  byte_sink to(out);
  write_base(what, to);
  write_extended(what, format, to);
  if (copy_payload(to.position(), what.payload.data(), what.payload.size()) != copy_fault::none)
    return 0;
  to.skip(what.payload.size());
  to.put_zeros(pad_of(what.payload.size()));
  return bytes;
}

}  // namespace verbena::softdev::wire
