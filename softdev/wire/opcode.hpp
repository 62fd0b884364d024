// SPDX-License-Identifier: MIT
// The opcodes of packets (IBTA 9.2) and the headers of the packets of each opcode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::softdev::wire {

/// The transport: the upper three bits of an opcode.
enum class packet_transport : std::uint8_t { rc = 0x00, uc = 0x20, ud = 0x60 };

/// The operation: the lower five bits of an opcode of RC, UC or UD.
enum class operation : std::uint8_t {
  send_first = 0x00,
  send_middle = 0x01,
  send_last = 0x02,
  send_last_with_imm = 0x03,
  send_only = 0x04,
  send_only_with_imm = 0x05,
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_with_imm = 0x09,
  write_only = 0x0a,
  write_only_with_imm = 0x0b,
  read_request = 0x0c,
  read_response_first = 0x0d,
  read_response_middle = 0x0e,
  read_response_last = 0x0f,
  read_response_only = 0x10,
  acknowledge = 0x11,
  atomic_acknowledge = 0x12,
  compare_swap = 0x13,
  fetch_add = 0x14,
  send_last_with_invalidate = 0x16,
  send_only_with_invalidate = 0x17,
};

/// The opcode of a packet. Values without a packet format are possible, because opcodes come from
/// the network.
enum class packet_opcode : std::uint8_t {
  congestion_notification = 0x81,  ///< CNP (IBTA annex A17.9)
  first_of_vendors = 0xc0,         ///< to 0xff: vendor opcodes; only their BTH is specified
  // Of soft0 (selective_packets.hpp). The lower bits are those of a request and of a response:
  // is_response applies.
  selective_offer = 0xc4,
  selective_acknowledgement = 0xd1,
};

[[nodiscard]] constexpr packet_opcode make_opcode(packet_transport transport,
                                                  operation what) noexcept {
  return static_cast<packet_opcode>(static_cast<unsigned>(transport) | static_cast<unsigned>(what));
}

/// Returns the upper three bits. The result can be a value without a name.
[[nodiscard]] constexpr packet_transport transport_of(packet_opcode of) noexcept {
  constexpr unsigned mask = 0xe0;
  return static_cast<packet_transport>(static_cast<unsigned>(of) & mask);
}
/// Returns the lower five bits. The result can be a value without a name.
[[nodiscard]] constexpr operation operation_of(packet_opcode of) noexcept {
  constexpr unsigned mask = 0x1f;
  return static_cast<operation>(static_cast<unsigned>(of) & mask);
}

/// True for responses and acknowledgements. Does not check the transport.
[[nodiscard]] constexpr bool is_response(packet_opcode code) noexcept {
  const operation what = operation_of(code);
  return what >= operation::read_response_first && what <= operation::atomic_acknowledge;
}

/// The headers after the BTH, in their order in the packet, and the payload.
struct packet_format {
  bool known = false;
  bool datagram = false;         ///< DETH
  bool remote = false;           ///< RETH
  bool atomic = false;           ///< AtomicETH
  bool acknowledgement = false;  ///< AETH
  bool original = false;         ///< AtomicAckETH
  bool immediate = false;        ///< ImmDt
  bool invalidate = false;       ///< IETH
  bool payload = false;

  /// Returns the length of the headers in bytes, including the BTH.
  [[nodiscard]] constexpr std::size_t header_bytes() const noexcept {
    return 12 + (datagram ? 8U : 0U) + (remote ? 16U : 0U) + (atomic ? 28U : 0U) +
           (acknowledgement ? 4U : 0U) + (original ? 8U : 0U) + (immediate ? 4U : 0U) +
           (invalidate ? 4U : 0U);
  }
};

namespace detail {

constexpr packet_format format_of_operation(operation what) noexcept {
  using enum operation;
  switch (what) {
    case send_first:
    case send_middle:
    case send_last:
    case send_only:
    case write_middle:
    case write_last:
    case read_response_middle:
      return {.known = true, .payload = true};
    case send_last_with_imm:
    case send_only_with_imm:
    case write_last_with_imm:
      return {.known = true, .immediate = true, .payload = true};
    case write_first:
    case write_only:
      return {.known = true, .remote = true, .payload = true};
    case write_only_with_imm:
      return {.known = true, .remote = true, .immediate = true, .payload = true};
    case read_request:
      return {.known = true, .remote = true};
    case read_response_first:
    case read_response_last:
    case read_response_only:
      return {.known = true, .acknowledgement = true, .payload = true};
    case acknowledge:
      return {.known = true, .acknowledgement = true};
    case atomic_acknowledge:
      return {.known = true, .acknowledgement = true, .original = true};
    case compare_swap:
    case fetch_add:
      return {.known = true, .atomic = true};
    case send_last_with_invalidate:
    case send_only_with_invalidate:
      return {.known = true, .invalidate = true, .payload = true};
  }
  return {};
}

constexpr std::array<packet_format, 256> make_formats() noexcept {
  std::array<packet_format, 256> made{};
  for (unsigned what = 0; what < 0x20; ++what) {
    const packet_format format = format_of_operation(static_cast<operation>(what));
    made[static_cast<unsigned>(packet_transport::rc) + what] = format;
    if (what <= static_cast<unsigned>(operation::write_only_with_imm))
      made[static_cast<unsigned>(packet_transport::uc) + what] = format;
  }
  for (const operation what : {operation::send_only, operation::send_only_with_imm}) {
    packet_format format = format_of_operation(what);
    format.datagram = true;
    made[static_cast<std::size_t>(make_opcode(packet_transport::ud, what))] = format;
  }
  made[static_cast<std::size_t>(packet_opcode::congestion_notification)] = {.known = true,
                                                                            .payload = true};
  for (auto code = static_cast<std::size_t>(packet_opcode::first_of_vendors); code < made.size();
       ++code)
    made[code] = {.known = true, .payload = true};
  return made;
}
inline constexpr std::array<packet_format, 256> formats = make_formats();

}  // namespace detail

/// Returns the format of packets with this opcode. If the opcode has no format, `known` is false.
[[nodiscard]] constexpr const packet_format& format_of(packet_opcode code) noexcept {
  return detail::formats[static_cast<std::size_t>(code)];
}

}  // namespace verbena::softdev::wire
