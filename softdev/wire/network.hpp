// SPDX-License-Identifier: MIT
// The network headers of a RoCE v2 packet, IPv4 or IPv6 and UDP, and its invariant CRC (ICRC),
// which covers most of them (IBTA annex A17).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

inline constexpr std::uint16_t roce_port = 4791;
inline constexpr std::size_t max_network_bytes = 40 + 8;

/// An address of IPv6, or of IPv4 as ::ffff:a.b.c.d: the form of GIDs.
using network_address = std::array<std::uint8_t, 16>;

[[nodiscard]] bool is_ipv4(const network_address& which) noexcept;
/// True for an address of fe80::/10, which is valid on one link: sockets need the interface, too.
[[nodiscard]] bool is_link_local(const network_address& which) noexcept;

/// The fields of the headers. The packet is one of IPv4 if both addresses are. It has no options,
/// no extension headers, and is not to be fragmented.
struct network_header {
  network_address source{};
  network_address destination{};
  std::uint8_t traffic_class = 0;    ///< IPv4: TOS
  std::uint8_t hop_limit = 64;       ///< IPv4: TTL
  std::uint16_t identification = 0;  ///< of IPv4
  std::uint32_t flow_label = 0;      ///< of IPv6
  std::uint16_t source_port = 0xc000;
  std::uint16_t destination_port = roce_port;

  bool operator==(const network_header&) const = default;
};

/// The bytes of IP and UDP headers.
[[nodiscard]] std::size_t network_bytes(const network_header& which) noexcept;

/// Reads the headers of an IP packet. `transport` becomes the rest: BTH to ICRC. Trailing bytes,
/// which Ethernet adds to short packets, are ignored; the UDP checksum is not checked. Packets to
/// another port than roce_port are not of RoCE. If the result is not `none`, `out` and `transport`
/// have no meaning.
[[nodiscard]] packet_fault parse_network(std::span<const std::byte> bytes, network_header& out,
                                         std::span<const std::byte>& transport) noexcept;

/// Writes the headers in front of `transport_bytes` (BTH to ICRC), with a UDP checksum of 0.
/// Precondition: `out` has network_bytes(which).
void write_network(const network_header& which, std::size_t transport_bytes,
                   std::span<std::byte> out) noexcept;

/// Stores the UDP checksum of an IPv6 packet, which must have one (RFC 8200); that of IPv4 stays 0.
/// To be called when the rest of the packet is complete.
void write_udp_checksum(std::span<std::byte> packet) noexcept;

/// Returns the ICRC of a packet. `covered` is the packet from BTH to pad. The ICRC also covers the
/// UDP header, both ports included, except for its checksum.
[[nodiscard]] std::uint32_t icrc(const network_header& around,
                                 std::span<const std::byte> covered) noexcept;
/// Stores an ICRC, least significant byte first.
void store_icrc(std::uint32_t value, std::span<std::byte, icrc_bytes> out) noexcept;
[[nodiscard]] std::uint32_t load_icrc(std::span<const std::byte, icrc_bytes> from) noexcept;

/// Returns the identification with which the ICRC of an IPv4 packet is `received`, or nullopt. A
/// receiver without a raw socket does not see this field. One of 65536 damaged packets has a
/// solution, so this is weaker than a check of the ICRC. Time: that of one ICRC.
[[nodiscard]] std::optional<std::uint16_t> recover_identification(
    const network_header& around, std::span<const std::byte> covered,
    std::uint32_t received) noexcept;

}  // namespace verbena::softdev::wire
