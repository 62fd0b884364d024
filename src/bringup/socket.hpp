// SPDX-License-Identifier: MIT
// TCP sockets: name resolution and connecting with a deadline, listening, names of addresses.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// A socket address as the system calls take it. Threads: immutable value.
struct socket_address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const noexcept;
};

enum class resolve_for { connecting, listening };

/// The addresses of `where`, best first, never empty. Numeric addresses are converted at once; a
/// name is looked up on a thread of its own, which is left to itself when the deadline passes.
[[nodiscard]] result<std::vector<socket_address>> resolve(const address& where, resolve_for purpose,
                                                          deadline until);

/// Connects to the first of the addresses that answers; each gets its share of the time left.
[[nodiscard]] result<unique_fd> connect_to(const address& where, deadline until);

/// A listening, non-blocking socket.
[[nodiscard]] result<unique_fd> listen_at(const address& where, int backlog);

/// Host and port in numbers.
[[nodiscard]] address address_of(const socket_address& name);
[[nodiscard]] result<address> local_address_of(int socket);

/// Small messages go out at once.
void set_no_delay(int socket) noexcept;

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
