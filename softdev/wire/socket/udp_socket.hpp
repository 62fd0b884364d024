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

/// The addresses of a datagram.
struct datagram_ends {
  network_address source{};
  network_address destination{};
  std::uint16_t source_port = 0;
  std::uint32_t interface = 0;  ///< index of the one on which a received datagram arrived
};

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
  static constexpr std::size_t control_bytes = 64;  ///< an address, and the size of datagrams
  struct alignas(std::uint64_t) control {
    std::array<std::byte, control_bytes> bytes;
  };
  /// Sets addresses and control data of a datagram to be sent from `source` to a port. `name` and
  /// `data` are those of `out`, whose payload is the caller's.
  void address(const datagram_ends& ends, std::uint16_t port, sockaddr_storage& name, control& data,
               msghdr& out) const noexcept;
  /// Makes the payload of an addressed message several datagrams of `bytes` each; the last one may
  /// be shorter (UDP_SEGMENT). The kernel numbers their IPv4 identifications from 0. Precondition:
  /// `out` was not divided before.
  static void divide(std::uint16_t bytes, msghdr& out) noexcept;
  /// The most datagrams, and the most bytes of their payload, that `divide` makes of a message.
  static constexpr std::size_t most_divided = 64;
  static constexpr std::size_t most_divided_bytes = 65'535 - max_network_bytes;
  /// Has the socket receive consecutive datagrams of one size and sender as one message, as far as
  /// the kernel can (UDP_GRO).
  void join_received() const noexcept;
  /// Reads the addresses of a received datagram. Returns false if one is missing.
  [[nodiscard]] static bool read_ends(const msghdr& received, datagram_ends& out) noexcept;
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

/// Returns the longest IP packet on the route between two addresses: the MTU that the kernel knows.
/// Does not send anything. Errors: EADDRNOTAVAIL if `own` is not an address of this host;
/// ENETUNREACH or EHOSTUNREACH if there is no route.
[[nodiscard]] result<std::uint32_t> find_route_mtu(const network_address& own,
                                                   const network_address& peer);

/// Returns the own address from which packets to another host leave, as the kernel routes them.
/// Does not send anything. Errors: ENETUNREACH or EHOSTUNREACH if there is no route.
[[nodiscard]] result<network_address> find_source(const network_address& peer);

/// The address as text.
[[nodiscard]] std::string to_text(const network_address& which);
/// Reads an address of IPv4 or IPv6. Returns nullopt if the text is something else.
[[nodiscard]] std::optional<network_address> from_text(const std::string& text);

}  // namespace verbena::softdev::wire
