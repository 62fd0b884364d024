// SPDX-License-Identifier: MIT
// TCP sockets: name resolution and connecting with a deadline, listening, names of addresses.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/address.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// A socket address in the form of the system calls. Threads: immutable value.
struct socket_address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const noexcept;
};

enum class resolve_for { connecting, listening };

/// Returns the addresses of `where`, best first, at least one. A host name is resolved on a
/// separate thread, which is detached if the deadline passes or the steps are destroyed.
[[nodiscard]] steps<std::vector<socket_address>> resolve(address where, resolve_for purpose,
                                                         deadline until);

/// Connects to the first address of `where` that accepts. Each address gets a share of the
/// remaining time. Refused connections are repeated for `retry_refused`.
[[nodiscard]] steps<unique_fd> connect_to(address where, deadline until,
                                          std::chrono::nanoseconds retry_refused);

/// Checks that `socket` is a connected stream socket and makes it non-blocking. Returns the name of
/// its peer.
[[nodiscard]] result<std::string> check_adoptable(int socket);

/// Returns a listening, non-blocking socket.
[[nodiscard]] result<unique_fd> listen_at(const address& where, int backlog);

/// Returns the numeric host and the port.
[[nodiscard]] address address_of(const socket_address& name);
[[nodiscard]] result<address> local_address_of(int socket);
[[nodiscard]] result<address> peer_address_of(int socket);

/// Returns true if a byte can be received without blocking. Keeps an error of the socket for the
/// next call, unlike recv(2) with MSG_PEEK.
[[nodiscard]] bool has_bytes(int socket) noexcept;
/// Sends small messages without delay (TCP_NODELAY).
void set_no_delay(int socket) noexcept;
/// Ends a TCP connection 25 s after the host of the peer failed, if all bytes that this side has
/// sent were acknowledged before (SO_KEEPALIVE). No effect on other sockets.
void probe_idle_host(int socket) noexcept;
/// Ends a TCP connection 25 s after the host of the peer failed, also if this side sends nothing
/// (SO_KEEPALIVE, TCP_USER_TIMEOUT). Also ends it if the peer does not read for 25 s while bytes of
/// this side wait for room in the receive buffer of the peer. No effect on other sockets.
void detect_failed_host(int socket) noexcept;

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
