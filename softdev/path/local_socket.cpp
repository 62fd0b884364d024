// SPDX-License-Identifier: MIT
#include "softdev/path/local_socket.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

local_name::local_name(const char* format, ...) noexcept {
  // It begins with a zero byte.
  constexpr std::size_t room = sizeof address_.sun_path - 1;
  address_.sun_family = AF_UNIX;
  std::va_list arguments;
  va_start(arguments, format);
  const int written = std::vsnprintf(address_.sun_path + 1, room, format, arguments);
  va_end(arguments);
  VERBENA_ASSERT(written > 0 && static_cast<std::size_t>(written) < room,
                 "an abstract socket name has more than 106 bytes");
  length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                   static_cast<std::size_t>(written));
}

socket_or_error new_local_socket() noexcept {
  unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {{}, errno};
  return {std::move(socket), 0};
}

socket_or_error connect_to_name(const local_name& name) noexcept {
  socket_or_error made = new_local_socket();
  if (!made.socket) return made;
  if (::connect(made.socket.get(), name.get(), name.length()) != 0) return {{}, errno};
  if (!identify_peer(made.socket.get()).same_user) return {{}, EACCES};
  return made;
}

socket_or_error accept_own_user(int listener, int most) noexcept {
  // Connections of other users are skipped, but not without end: they could come for ever.
  for (int turn = 0; turn < most; ++turn) {
    unique_fd peer(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return {{}, errno};
    }
    if (identify_peer(peer.get()).same_user) return {std::move(peer), 0};
  }
  return {{}, EAGAIN};
}

socket_peer identify_peer(int socket) noexcept {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return {credentials.uid == ::geteuid(), credentials.pid};
}

}  // namespace verbena::softdev
