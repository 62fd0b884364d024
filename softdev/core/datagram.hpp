// SPDX-License-Identifier: MIT
// What a datagram carries besides its payload: where it goes, and the global route header that its
// receiver finds in front of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/core/attributes.hpp"
#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

using gid_bytes = std::array<std::uint8_t, 16>;

/// True for the GID of a multicast group: ff00::/8, or an IPv4 address of class D (::ffff:a.b.c.d).
[[nodiscard]] bool is_multicast(const gid_bytes& gid) noexcept;
/// What completions of SRD call the sender's address: the number of each address handle, because
/// there is one port; the second if the protection domain has none.
inline constexpr std::uint16_t known_sender = 1;
inline constexpr std::uint16_t unknown_sender = 0xffff;

/// The route between two ports, by their GIDs.
struct datagram_route {
  gid_bytes source{};
  gid_bytes destination{};
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;  ///< 0: as usual (64)
  bool over_udp = true;        ///< RoCE v2; else InfiniBand

  bool operator==(const datagram_route&) const = default;
};

/// The route in a header that `datagram_address::write` made.
[[nodiscard]] datagram_route route_of(
    std::span<const std::byte, route_header_bytes> header) noexcept;
/// The destination in such a header.
[[nodiscard]] gid_bytes destination_of(
    std::span<const std::byte, route_header_bytes> header) noexcept;

/// The contents of an address handle. Threads: immutable value.
class datagram_address {
 public:
  datagram_address() noexcept = default;
  /// An address with a route. `origin.has_route` is set by it.
  datagram_address(const datagram_route& route, datagram_origin origin) noexcept;
  /// An address without a route: a LID of the same subnet.
  explicit datagram_address(datagram_origin origin) noexcept : origin_(origin) {
    origin_.has_route = false;
  }

  [[nodiscard]] const datagram_origin& origin() const noexcept { return origin_; }
  void set_service_level(std::uint8_t level) noexcept { origin_.service_level = level; }
  /// Whether the network header is an IPv4 header.
  [[nodiscard]] bool is_ipv4() const noexcept { return is_ipv4_; }
  /// The type of the packets between these addresses, which completions on RoCE contain as service
  /// level (decision 0022): the numbers of mlx5, in which bit 3 stands for a UDP header.
  [[nodiscard]] std::uint8_t packet_type() const noexcept { return is_ipv4_ ? 8 | 2 : 8 | 1; }
  /// The LID that it goes to; 0 on Ethernet.
  [[nodiscard]] std::uint16_t lid() const noexcept { return lid_; }
  void set_lid(std::uint16_t lid) noexcept { lid_ = lid; }
  /// How datagrams get there: on this host, unless `set_wire_mtu` was called.
  [[nodiscard]] path_to_peer path() const noexcept {
    return wire_mtu_ == 0 ? path_to_peer::same_host : path_to_peer::wire;
  }
  /// Datagrams go by the wire, with a path MTU of this code (ibv_mtu, 1 … 5).
  void set_wire_mtu(std::uint8_t code) noexcept { wire_mtu_ = code; }
  /// The longest payload of a datagram to this address.
  [[nodiscard]] std::uint32_t longest_payload() const noexcept {
    return wire_mtu_ == 0 ? limits::max_datagram_bytes : bytes_of_mtu(wire_mtu_);
  }

  /// Writes the header of a datagram with `payload_bytes`: between IPv4 addresses (GIDs
  /// ::ffff:a.b.c.d) on RoCE 20 zero bytes and an IPv4 header, as the kernel's rxe does it; else an
  /// IPv6 header, which the GRH is. Zero bytes when there is no route.
  void write(std::span<std::byte, route_header_bytes> out, std::uint32_t payload_bytes,
             bool immediate) const noexcept;

 private:
  datagram_origin origin_;
  std::uint16_t lid_ = 0;
  std::uint8_t wire_mtu_ = 0;  ///< ibv_mtu; 0: not by the wire
  bool is_ipv4_ = false;
  bool over_udp_ = true;
  std::array<std::byte, route_header_bytes> header_{};  ///< without lengths and checksum
};

/// The destination of one datagram.
struct datagram_destination {
  datagram_address address;
  std::uint32_t qpn = 0;
  std::uint32_t qkey = 0;  ///< with the top bit set: the sender's own is meant (IBTA 10.2.5)
  bool known = false;      ///< somebody has set it

  /// The Q_Key that travels, when the sender's is `own`.
  [[nodiscard]] std::uint32_t key_of(std::uint32_t own) const noexcept {
    return (qkey & 0x8000'0000) != 0 ? own : qkey;
  }
};
static_assert(sizeof(datagram_destination) == 64, "each send request over UD has one");

}  // namespace verbena::softdev
