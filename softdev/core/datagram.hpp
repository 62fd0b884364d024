// SPDX-License-Identifier: MIT
// The data of a datagram besides its payload: its destination, and the global routing header (GRH)
// in front of the payload at its receiver.
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

/// Returns whether a GID is a multicast group: ff00::/8, or an IPv4 address of class D
/// (::ffff:a.b.c.d).
[[nodiscard]] bool is_multicast(const gid_bytes& gid) noexcept;
/// The sender's address handle number in completions of SRD. All address handles have the number
/// `known_sender`, because there is one port. If the protection domain has no address handle,
/// completions contain `unknown_sender`.
inline constexpr std::uint16_t known_sender = 1;
inline constexpr std::uint16_t unknown_sender = 0xffff;

/// The route between two ports, by their GIDs.
struct datagram_route {
  gid_bytes source{};
  gid_bytes destination{};
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;  ///< 0: the default (64)
  bool over_udp = true;        ///< RoCE v2; else InfiniBand

  bool operator==(const datagram_route&) const = default;
};

/// Returns the route in a header of `datagram_address::write`.
[[nodiscard]] datagram_route route_of(std::span<const std::byte, grh_bytes> header) noexcept;
/// Returns the destination in a header of `datagram_address::write`.
[[nodiscard]] gid_bytes destination_of(std::span<const std::byte, grh_bytes> header) noexcept;

/// The contents of an address handle. Threads: immutable value.
class datagram_address {
 public:
  datagram_address() noexcept = default;
  /// Makes an address with a route. Sets `origin.has_grh`.
  datagram_address(const datagram_route& route, datagram_origin origin) noexcept;
  /// Makes an address without a route: a LID of the same subnet.
  explicit datagram_address(datagram_origin origin) noexcept : origin_(origin) {
    origin_.has_grh = false;
  }

  [[nodiscard]] const datagram_origin& origin() const noexcept { return origin_; }
  void set_service_level(std::uint8_t level) noexcept { origin_.service_level = level; }
  /// Returns whether the network header is an IPv4 header.
  [[nodiscard]] bool is_ipv4() const noexcept { return is_ipv4_; }
  /// Returns the type of packets between these addresses, which RoCE completions contain as service
  /// level (decision 0022). The numbers are those of mlx5, in which bit 3 means a UDP header.
  [[nodiscard]] std::uint8_t packet_type() const noexcept { return is_ipv4_ ? 8 | 2 : 8 | 1; }
  /// Returns the LID of the destination; 0 on Ethernet.
  [[nodiscard]] std::uint16_t lid() const noexcept { return lid_; }
  void set_lid(std::uint16_t lid) noexcept { lid_ = lid; }
  /// Returns the path of datagrams: the same host, unless `set_wire_mtu` was called.
  [[nodiscard]] path_to_peer path() const noexcept {
    return wire_mtu_ == 0 ? path_to_peer::same_host : path_to_peer::wire;
  }
  /// Makes datagrams use the wire, with a path MTU of this code (ibv_mtu, 1 … 5).
  void set_wire_mtu(std::uint8_t code) noexcept { wire_mtu_ = code; }
  /// Returns the longest payload of a datagram to this address.
  [[nodiscard]] std::uint32_t longest_payload() const noexcept {
    return wire_mtu_ == 0 ? limits::max_datagram_bytes : bytes_of_mtu(wire_mtu_);
  }

  /// Writes the header of a datagram with `payload_bytes`. Between IPv4 addresses (GIDs
  /// ::ffff:a.b.c.d) on RoCE, it is 20 zero bytes and an IPv4 header, as in the kernel's rxe.
  /// Otherwise it is a GRH, which has the format of an IPv6 header. Without a route, it is zero
  /// bytes.
  void write(std::span<std::byte, grh_bytes> out, std::uint32_t payload_bytes,
             bool immediate) const noexcept;

 private:
  datagram_origin origin_;
  std::uint16_t lid_ = 0;
  std::uint8_t wire_mtu_ = 0;  ///< ibv_mtu; 0: not on the wire
  bool is_ipv4_ = false;
  bool over_udp_ = true;
  std::array<std::byte, grh_bytes> header_{};  ///< without lengths and checksum
};

/// The destination of one datagram.
struct datagram_destination {
  datagram_address address;
  std::uint32_t qpn = 0;
  std::uint32_t qkey = 0;  ///< if the top bit is set, the sender's own Q_Key is used (IBTA 10.2.5)
  bool known = false;      ///< the destination was set

  /// Returns the Q_Key of the datagram if the sender's own Q_Key is `own`.
  [[nodiscard]] std::uint32_t key_of(std::uint32_t own) const noexcept {
    return (qkey & 0x8000'0000) != 0 ? own : qkey;
  }
};
static_assert(sizeof(datagram_destination) == 64, "each send request over UD has one");

}  // namespace verbena::softdev
