// SPDX-License-Identifier: MIT
// UDP sockets of RoCE v2 packets, for IPv4 and IPv6. They are not connected and do not fragment, so
// that the kernel gives each IPv4 packet the identification 0, which the ICRC covers.
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

/// The index of the loopback interface, in each network namespace.
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
  /// Index of the one on which a received datagram arrived, or by which one with a link-local
  /// address or to a group is sent.
  std::uint32_t interface = 0;
  /// Of an IPv6 datagram that is sent, without the ECN bits; of a received one, with them.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;  ///< of a datagram to a group that is sent; 0: that of the kernel
  /// Sends the datagram as ECT(0): its sender reduces its load if the datagram is marked.
  bool reacts_to_congestion = false;

  [[nodiscard]] bool operator==(const datagram_addresses&) const noexcept = default;
};

/// `interface` if one of the addresses is link-local, else 0: the route of the kernel decides.
[[nodiscard]] inline std::uint32_t scope_of(const network_address& one,
                                            const network_address& other,
                                            std::uint32_t interface) noexcept {
  return is_link_local(one) || is_link_local(other) ? interface : 0;
}

/// Returns whether a congested queue marked a received datagram (CE, RFC 3168).
[[nodiscard]] inline bool is_marked(const datagram_addresses& ends) noexcept {
  return (ends.traffic_class & ecn_mask) == ecn_congested;
}

/// The traffic class, or type of service, of a datagram that is sent.
[[nodiscard]] std::uint8_t sent_traffic_class(const datagram_addresses& ends) noexcept;

/// A socket that does not block. Threads: thread-safe, except for moves.
class udp_socket {
 public:
  /// The direction that gets a long queue. What arrives at a socket for sending is lost early.
  enum class use : std::uint8_t { receiving, sending };

  /// Binds `port` on all addresses of the host; 0: any free port. Errors: the errno of socket(2),
  /// setsockopt(2) or bind(2).
  [[nodiscard]] static result<udp_socket> open(std::uint16_t port, use what);
  udp_socket() noexcept = default;

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// Closes the socket; `fd` is -1 then.
  void close() noexcept { socket_.reset(); }

  /// The room that control data needs, in both directions.
  static constexpr std::size_t control_bytes = 128;
  struct alignas(std::uint64_t) control {
    std::array<std::byte, control_bytes> bytes;
  };
  /// Sets addresses and control data of a datagram to be sent from `source` to a port. `name` and
  /// `data` are those of `out`, whose payload is the caller's.
  void address(const datagram_addresses& ends, std::uint16_t port, sockaddr_storage& name,
               control& data, msghdr& out) const noexcept;
  /// Whether the kernel knows UDP_SEGMENT (Linux 4.18).
  [[nodiscard]] bool supports_gso() const noexcept;
  /// Makes the payload of an addressed message several datagrams of `bytes` each; the last one may
  /// be shorter (UDP_SEGMENT). The kernel numbers their IPv4 identifications from 0. Precondition:
  /// `out` was not divided before.
  static void divide(std::uint16_t bytes, msghdr& out) noexcept;
  /// The most datagrams, and the most bytes of their payload, that `divide` makes of a message.
  static constexpr std::size_t most_divided = 64;
  static constexpr std::size_t most_divided_bytes = 65'535 - max_network_bytes;
  /// Has the socket receive consecutive datagrams of one size and sender as one message, as far as
  /// the kernel can (UDP_GRO).
  void enable_gro() const noexcept;
  /// Reads the addresses of a received datagram. Returns false if one is missing.
  [[nodiscard]] static bool read_ends(const msghdr& received, datagram_addresses& out) noexcept;
  /// Returns the size of the datagrams in a received message, whose last one may be shorter; 0 if
  /// it is one datagram.
  [[nodiscard]] static std::size_t datagram_bytes(const msghdr& received) noexcept;

 private:
  udp_socket(unique_fd socket, int family, std::uint16_t port) noexcept
      : socket_(std::move(socket)), family_(family), port_(port) {}

  unique_fd socket_;
  int family_ = 0;
  std::uint16_t port_ = 0;
};

/// Returns the longest IP packet on the route between the two addresses of `ends`: the MTU that the
/// kernel knows. Does not send anything. Errors: EADDRNOTAVAIL if the source is not an address of
/// this host, and of the interface if one of them is link-local; ENETUNREACH or EHOSTUNREACH if
/// there is no route.
[[nodiscard]] result<std::uint32_t> find_route_mtu(const datagram_addresses& ends);

/// A membership of this host in a multicast group, at some interfaces. It ends with the object.
/// Threads: one thread at a time.
class group_socket {
 public:
  /// Errors: the errno of socket(2).
  [[nodiscard]] static result<group_socket> open(const network_address& group);
  /// Joins the group at an interface (IGMP, MLD). 0 or an errno: ENODEV if the interface has no
  /// addresses of this version of IP, ENOBUFS at a limit of the kernel (igmp_max_memberships).
  [[nodiscard]] int join(std::uint32_t interface) const noexcept;

 private:
  group_socket(unique_fd socket, const network_address& group) noexcept
      : socket_(std::move(socket)), group_(group) {}

  unique_fd socket_;
  network_address group_;
};

/// Returns the own address from which packets to another host leave, as the kernel routes them.
/// `interface`: that of a link-local address. Does not send anything. Errors: ENETUNREACH or
/// EHOSTUNREACH if there is no route; EINVAL if the interface of a link-local address is missing.
[[nodiscard]] result<network_address> find_source(const network_address& peer,
                                                  std::uint32_t interface);

/// The address as text.
[[nodiscard]] std::string to_text(const network_address& which);
/// Reads an address of IPv4 or IPv6. Returns nullopt if the text is something else.
[[nodiscard]] std::optional<network_address> from_text(const std::string& text);

}  // namespace verbena::softdev::wire
