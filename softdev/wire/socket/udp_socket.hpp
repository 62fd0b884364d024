// SPDX-License-Identifier: MIT
// UDP sockets of RoCE v2 packets, for IPv4 and IPv6. They are not connected and do not fragment.
// Therefore the kernel sets the identification of each IPv4 packet to 0. The ICRC covers this
// field.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "softdev/wire/network.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::wire {

/// The index of the loopback interface in each network namespace.
inline constexpr std::uint32_t loopback_interface = 1;

/// The ECN bits of a traffic class or type of service (RFC 3168).
inline constexpr std::uint8_t ecn_mask = 3;
inline constexpr std::uint8_t ecn_capable = 2;    ///< ECT(0)
inline constexpr std::uint8_t ecn_congested = 3;  ///< CE

/// The addresses of a datagram.
struct datagram_addresses {
  network_address source{};
  network_address destination{};
  std::uint16_t source_port = 0;
  /// The index of the interface on which a received datagram arrived. For a sent datagram, it is
  /// used if an address is link-local or the destination is a group.
  std::uint32_t interface = 0;
  /// Of a received datagram: includes the ECN bits. Of a sent datagram: IPv6 only, without the ECN
  /// bits.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;  ///< of a sent datagram to a group; 0: the kernel's default
  /// Sends the datagram as ECT(0): the sender reduces its load if the datagram is marked.
  bool reacts_to_congestion = false;

  [[nodiscard]] bool operator==(const datagram_addresses&) const noexcept = default;
};

/// Returns `interface` if one of the addresses is link-local. Otherwise returns 0: the kernel's
/// route determines the interface.
[[nodiscard]] inline std::uint32_t scope_of(const network_address& one,
                                            const network_address& other,
                                            std::uint32_t interface) noexcept {
  return is_link_local(one) || is_link_local(other) ? interface : 0;
}

/// Returns whether a congested queue has marked a received datagram (CE, RFC 3168).
[[nodiscard]] inline bool is_marked(const datagram_addresses& ends) noexcept {
  return (ends.traffic_class & ecn_mask) == ecn_congested;
}

/// Returns the traffic class or type of service of a sent datagram.
[[nodiscard]] std::uint8_t sent_traffic_class(const datagram_addresses& ends) noexcept;

/// A non-blocking socket. Threads: thread-safe, except for moves.
class udp_socket {
 public:
  /// The direction with the large buffer. A sending socket has the smallest possible receive
  /// buffer.
  enum class use : std::uint8_t { receiving, sending };

  /// Binds `port` on all addresses of the host; 0: any free port. Errors: the errno of socket(2),
  /// setsockopt(2), bind(2) or getsockname(2).
  [[nodiscard]] static result<udp_socket> open(std::uint16_t port, use what);
  /// Takes a receiving socket that another process has opened. Returns nullopt if the descriptor is
  /// not a UDP socket with this port.
  [[nodiscard]] static std::optional<udp_socket> adopt(unique_fd opened,
                                                       std::uint16_t port) noexcept;
  udp_socket() noexcept = default;

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// Closes the socket. Afterwards, `fd` is -1.
  void close() noexcept { socket_.reset(); }

  /// The size of the buffer for control data, in both directions.
  static constexpr std::size_t control_bytes = 128;
  struct alignas(std::uint64_t) control {
    std::array<std::byte, control_bytes> bytes;
  };
  /// Sets the addresses and control data of a datagram to be sent. `out` refers to `name` and
  /// `data`; the caller sets its payload.
  void address(const datagram_addresses& ends, std::uint16_t port, sockaddr_storage& name,
               control& data, msghdr& out) const noexcept;
  /// Returns whether the kernel supports UDP_SEGMENT (Linux 4.18).
  [[nodiscard]] bool supports_gso() const noexcept;
  /// Has the kernel segment the payload of an addressed message into datagrams of `bytes` each; the
  /// last one can be shorter (UDP_SEGMENT). The kernel numbers their IPv4 identifications from 0.
  /// Precondition: `divide` was not called for `out` before.
  static void divide(std::uint16_t bytes, msghdr& out) noexcept;
  /// The maximum number of datagrams of a segmented message, and the maximum length of their
  /// payload.
  static constexpr std::size_t most_divided = 64;
  static constexpr std::size_t most_divided_bytes = 65'535 - max_network_bytes;
  /// Has the kernel join consecutive received datagrams of one size and sender in one message, if
  /// it supports this (UDP_GRO).
  void enable_gro() const noexcept;
  /// Reads the addresses of a received datagram. Returns false if one is missing.
  [[nodiscard]] static bool read_ends(const msghdr& received, datagram_addresses& out) noexcept;
  /// Returns the size of the datagrams in a received message; the last one can be shorter. Returns
  /// 0 if the message is one datagram.
  [[nodiscard]] static std::size_t datagram_bytes(const msghdr& received) noexcept;

 private:
  udp_socket(unique_fd socket, int family, std::uint16_t port) noexcept
      : socket_(std::move(socket)), family_(family), port_(port) {}

  unique_fd socket_;
  int family_ = 0;
  std::uint16_t port_ = 0;
};

/// Returns the kernel's MTU of the route between the addresses of `ends`. Does not send packets.
/// Errors: EADDRNOTAVAIL if the source is not an address of this host, or, if an address is
/// link-local, not an address of the interface; ENETUNREACH or EHOSTUNREACH if there is no route.
[[nodiscard]] result<std::uint32_t> find_route_mtu(const datagram_addresses& ends);

/// The membership of this host in a multicast group, on some interfaces. The destructor ends it.
/// Threads: one thread at a time.
class group_socket {
 public:
  /// Errors: the errno of socket(2).
  [[nodiscard]] static result<group_socket> open(const network_address& group);
  /// Joins the group on an interface (IGMP, MLD). Returns 0 or an errno: ENODEV if the interface
  /// has no address of this IP version; ENOBUFS if a limit of the kernel is reached
  /// (igmp_max_memberships).
  [[nodiscard]] int join(std::uint32_t interface) const noexcept;

 private:
  group_socket(unique_fd socket, const network_address& group) noexcept
      : socket_(std::move(socket)), group_(group) {}

  unique_fd socket_;
  network_address group_;
};

/// Returns the source address that the kernel uses for packets to another host. `interface`: for a
/// link-local address. Does not send packets. Errors: ENETUNREACH or EHOSTUNREACH if there is no
/// route; EINVAL if the interface of a link-local address is missing.
[[nodiscard]] result<network_address> find_source(const network_address& peer,
                                                  std::uint32_t interface);

/// Returns the address as text.
[[nodiscard]] std::string to_text(const network_address& which);
/// Parses an IPv4 or IPv6 address. Returns nullopt if the text is not an address.
[[nodiscard]] std::optional<network_address> from_text(const std::string& text);

}  // namespace verbena::softdev::wire
