// SPDX-License-Identifier: MIT
// Sockets by which the processes of one user on this host find and connect to each other. Abstract
// names belong to a network namespace, need no file and are released when their process exits. None
// of these calls blocks.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// A socket, or the errno of the failure.
struct socket_or_error {
  unique_fd socket;
  int error = 0;  ///< an errno
};

/// An abstract name. Threads: immutable value.
class local_name {
 public:
  /// Formats the name like printf(3). Precondition: the name has at most 106 bytes.
  [[gnu::format(printf, 2, 3)]] explicit local_name(const char* format, ...) noexcept;

  [[nodiscard]] const sockaddr* get() const noexcept {
    return static_cast<const sockaddr*>(static_cast<const void*>(&address_));
  }
  [[nodiscard]] socklen_t length() const noexcept { return length_; }

 private:
  sockaddr_un address_{};
  socklen_t length_ = 0;
};

/// Creates a non-blocking SOCK_SEQPACKET socket, closed on exec.
[[nodiscard]] socket_or_error new_local_socket() noexcept;
/// Connects to the socket that listens under `name`. Errors: ECONNREFUSED if no socket listens;
/// EAGAIN if its backlog is full; EACCES if it belongs to another user. If the kernel does not
/// report the user of a socket with a full backlog, returns EAGAIN. If a thread repeats the
/// call, it usually asks the kernel for this user every 500 ms, because the kernel lists all
/// sockets of the host.
[[nodiscard]] socket_or_error connect_to_name(const local_name& name) noexcept;
/// Returns whether a process of another user listens under `name`, without connecting to it: also
/// if its backlog is full. Returns false if the kernel does not report the user.
[[nodiscard]] bool is_name_of_another_user(const local_name& name) noexcept;
/// An accepted connection, and the number of other users' connections that were closed before it.
struct accepted_socket : socket_or_error {
  int skipped = 0;
};
/// Accepts the next connection of this user. Closes up to `most` connections of other users. Error:
/// EAGAIN if no connection of this user is found.
[[nodiscard]] accepted_socket accept_own_user(int listener, int most) noexcept;

/// Returns whether the user ID of this process identifies one user. Returns false if the process is
/// in a user namespace that does not map its user ID: every user without a mapping appears there as
/// the overflow user ID (user_namespaces(7)).
[[nodiscard]] bool own_user_is_identified() noexcept;

/// The process at the other end of a socket. `pid` is 0 if it is outside our pid namespace.
struct socket_peer {
  bool same_user = false;  ///< false if own_user_is_identified() is false
  pid_t pid = 0;
  uid_t user = static_cast<uid_t>(-1);
};
[[nodiscard]] socket_peer identify_peer(int socket) noexcept;

/// The process that listens under a name. It may belong to another user.
struct name_holder {
  int error = 0;  ///< ECONNREFUSED if no socket listens; EAGAIN if the backlog is full
  socket_peer process;
};
[[nodiscard]] name_holder find_holder(const local_name& name) noexcept;

}  // namespace verbena::softdev
