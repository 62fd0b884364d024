// SPDX-License-Identifier: MIT
#include "softdev/path/rendezvous_slot.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

#include "softdev/path/segment_layout.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {

namespace {
constexpr int backlog = 128;

struct slot_address {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit slot_address(std::uint32_t slot) noexcept {
    address.sun_family = AF_UNIX;
    // An abstract name: it begins with a zero byte and needs no file.
    const int written =
        std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "verbena-soft0.%u.%u",
                      static_cast<unsigned>(::geteuid()), slot);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                    static_cast<std::size_t>(written));
  }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return static_cast<const sockaddr*>(static_cast<const void*>(&address));
  }
};

unique_fd new_socket() noexcept {
  return unique_fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}
}  // namespace

result<slot_claim> slot_claim::take() {
  unique_fd listener = new_socket();
  if (!listener) return error::from_errno(errno, "socket", "slot of soft0");
  const std::uint32_t first = random_u32() % slot_count;
  for (std::uint32_t step = 0; step < slot_count; ++step) {
    const std::uint32_t slot = (first + step) % slot_count;
    const slot_address address(slot);
    if (::bind(listener.get(), address.get(), address.length) != 0) {
      if (errno == EADDRINUSE) continue;
      return error::from_errno(errno, "bind", "slot of soft0");
    }
    if (::listen(listener.get(), backlog) != 0) {
      return error::from_errno(errno, "listen", "slot of soft0");
    }
    return slot_claim(std::move(listener), slot);
  }
  return error::unavailable(EADDRINUSE, "bind", "soft0",
                            "1024 processes of this user have the software device open already");
}

unique_fd slot_claim::accept() noexcept {
  // Connections of other users are skipped, but not without end: they could come for ever.
  for (int turn = 0; turn < backlog; ++turn) {
    unique_fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return {};
    }
    if (identify_peer(socket.get()).same_user) return socket;
  }
  return {};
}

slot_connection connect_to_slot(std::uint32_t slot) noexcept {
  slot_connection out{new_socket()};
  if (!out.socket) return {{}, errno};
  const slot_address address(slot);
  if (::connect(out.socket.get(), address.get(), address.length) != 0) return {{}, errno};
  if (!identify_peer(out.socket.get()).same_user) return {{}, EACCES};
  return out;
}

socket_peer identify_peer(int socket) noexcept {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return {credentials.uid == ::geteuid(), credentials.pid};
}

}  // namespace verbena::softdev
