// SPDX-License-Identifier: MIT
// How processes of one user on this host meet: sockets with abstract names, which belong to a
// network namespace, need no file and go with their process. None of these calls blocks.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// A descriptor, or why there is none.
struct socket_or_error {
  unique_fd socket;
  int error = 0;  ///< an errno
};

/// An abstract name. Threads: immutable value.
class local_name {
 public:
  /// The name as printf(3) writes it. Precondition: it has at most 106 bytes.
  [[gnu::format(printf, 2, 3)]] explicit local_name(const char* format, ...) noexcept;

  [[nodiscard]] const sockaddr* get() const noexcept {
    return static_cast<const sockaddr*>(static_cast<const void*>(&address_));
  }
  [[nodiscard]] socklen_t length() const noexcept { return length_; }

 private:
  sockaddr_un address_{};
  socklen_t length_ = 0;
};

/// A socket that keeps messages apart, closed on exec, that does not block.
[[nodiscard]] socket_or_error new_local_socket() noexcept;
/// Connects to the socket that listens by that name: ECONNREFUSED when nobody does, EAGAIN when its
/// backlog is full, EACCES when it is another user's.
[[nodiscard]] socket_or_error connect_to_name(const local_name& name) noexcept;
/// A connection that was accepted, and how many of other users were closed before.
struct accepted_socket : socket_or_error {
  int skipped = 0;
};
/// The next connection of this user; up to `most` of other users are closed and skipped. EAGAIN
/// when there is none.
[[nodiscard]] accepted_socket accept_own_user(int listener, int most) noexcept;

/// Returns whether the user ID of this process identifies one user. It does not if this process is
/// in a user namespace that does not map it: such a process, and every other one without a mapping,
/// is seen as the overflow user ID (user_namespaces(7)).
[[nodiscard]] bool own_user_is_identified() noexcept;

/// The process at the other end of a socket. `pid` is 0 if it is outside our pid namespace.
struct socket_peer {
  bool same_user = false;  ///< false if own_user_is_identified() is false
  pid_t pid = 0;
  uid_t user = static_cast<uid_t>(-1);
};
[[nodiscard]] socket_peer identify_peer(int socket) noexcept;

/// The process that listens by a name, whoever its user is.
struct name_holder {
  int error = 0;  ///< ECONNREFUSED when nobody listens; EAGAIN when its backlog is full
  socket_peer process;
};
[[nodiscard]] name_holder find_holder(const local_name& name) noexcept;

}  // namespace verbena::softdev
