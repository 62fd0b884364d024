// SPDX-License-Identifier: MIT
// The network headers of a RoCE v2 packet (IPv4 or IPv6, and UDP) and its invariant CRC (ICRC),
// which covers most of their fields (IBTA annex A17).
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

/// An IPv6 address, or an IPv4 address in the form ::ffff:a.b.c.d. GIDs have the same form.
using network_address = std::array<std::uint8_t, 16>;

[[nodiscard]] bool is_ipv4(const network_address& which) noexcept;
/// True for an address in fe80::/10. It is valid on one link only, so sockets also need the
/// interface.
[[nodiscard]] bool is_link_local(const network_address& which) noexcept;

/// The fields of the headers. The packet is an IPv4 packet if both addresses are IPv4 addresses,
/// else an IPv6 packet. It has no IP options or extension headers, and is never fragmented.
struct network_header {
  network_address source{};
  network_address destination{};
  std::uint8_t traffic_class = 0;    ///< IPv4: TOS
  std::uint8_t hop_limit = 64;       ///< IPv4: TTL
  std::uint16_t identification = 0;  ///< IPv4 only
  std::uint32_t flow_label = 0;      ///< IPv6 only
  std::uint16_t source_port = 0xc000;
  std::uint16_t destination_port = roce_port;

  bool operator==(const network_header&) const = default;
};

/// Returns the length of the IP and UDP headers in bytes.
[[nodiscard]] std::size_t network_bytes(const network_header& which) noexcept;

/// Parses the headers of an IP packet. Sets `transport` to the UDP payload: BTH to ICRC. Trailing
/// bytes, which Ethernet adds to short packets, are ignored. The UDP checksum is not checked. A
/// destination port other than roce_port gives `not_roce`. If the result is not `none`, `out` and
/// `transport` are unspecified.
[[nodiscard]] packet_fault parse_network(std::span<const std::byte> bytes, network_header& out,
                                         std::span<const std::byte>& transport) noexcept;

/// Writes the headers of a packet with `transport_bytes` from BTH to ICRC. The UDP checksum is 0.
/// Precondition: `out` has network_bytes(which) bytes.
void write_network(const network_header& which, std::size_t transport_bytes,
                   std::span<std::byte> out) noexcept;

/// Stores the UDP checksum of an IPv6 packet, which must have one (RFC 8200). Does not change an
/// IPv4 packet, whose UDP checksum is 0. Precondition: the rest of the packet is complete.
void write_udp_checksum(std::span<std::byte> packet) noexcept;

/// Returns the ICRC of a packet. `covered` is the packet from BTH to pad. The ICRC also covers the
/// UDP header, including both ports, except its checksum.
[[nodiscard]] std::uint32_t icrc(const network_header& around,
                                 std::span<const std::byte> covered) noexcept;
/// Stores an ICRC, least significant byte first.
void store_icrc(std::uint32_t value, std::span<std::byte, icrc_bytes> out) noexcept;
[[nodiscard]] std::uint32_t load_icrc(std::span<const std::byte, icrc_bytes> from) noexcept;

/// Returns the IPv4 identification with which the ICRC of the packet is `received`, or nullopt if
/// there is none. A receiver without a raw socket cannot read this field. One in 65536 damaged
/// packets has such an identification, so this check is weaker than a check of the ICRC. Time: one
/// ICRC.
[[nodiscard]] std::optional<std::uint16_t> recover_identification(
    const network_header& around, std::span<const std::byte> covered,
    std::uint32_t received) noexcept;

}  // namespace verbena::softdev::wire
