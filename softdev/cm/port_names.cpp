// SPDX-License-Identifier: MIT
#include "softdev/cm/port_names.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "softdev/path/rendezvous_slot.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr int backlog = 1024;  // the kernel takes as many as net.core.somaxconn says
constexpr int accepts_per_turn = 64;

struct name {
  sockaddr_un address{};
  socklen_t length = 0;

  name(const char* kind, unsigned first, unsigned second) noexcept {
    address.sun_family = AF_UNIX;
    // An abstract name: it begins with a zero byte and needs no file.
    const int written =
        std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "verbena-cm-%s.%u.%x.%u",
                      kind, static_cast<unsigned>(::geteuid()), first, second);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                    static_cast<std::size_t>(written));
  }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return static_cast<const sockaddr*>(static_cast<const void*>(&address));
  }
};

name port_name(port_space space, std::uint16_t port) noexcept {
  return {"port", static_cast<unsigned>(space), port};
}

socket_or_error bound_to(const name& where) noexcept {
  unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {{}, errno};
  if (::bind(socket.get(), where.get(), where.length) != 0) return {{}, errno};
  return {std::move(socket), 0};
}

}  // namespace

socket_or_error claim_port(port_space space, std::uint16_t port) noexcept {
  return bound_to(port_name(space, port));
}

int open_port(int socket) noexcept { return ::listen(socket, backlog) == 0 ? 0 : errno; }

socket_or_error accept_peer(int socket) noexcept {
  // Connections of other users are skipped, but not without end: they could come for ever.
  for (int turn = 0; turn < accepts_per_turn; ++turn) {
    unique_fd peer(::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return {{}, errno};
    }
    if (identify_peer(peer.get()).same_user) return {std::move(peer), 0};
  }
  return {{}, EAGAIN};
}

socket_or_error connect_to_port(port_space space, std::uint16_t port) noexcept {
  unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {{}, errno};
  const name where = port_name(space, port);
  if (::connect(socket.get(), where.get(), where.length) != 0) return {{}, errno};
  if (!identify_peer(socket.get()).same_user) return {{}, EACCES};
  return {std::move(socket), 0};
}

std::uint16_t ephemeral_ports::take_from(block& from) noexcept {
  if (from.taken == ~std::uint64_t{0}) return 0;
  // Onwards from the last one, so that a number rests before it is used again.
  while (((from.taken >> from.next) & 1U) != 0)
    from.next = static_cast<std::uint16_t>((from.next + 1U) % block_ports);
  const std::uint16_t index = from.next;
  from.taken |= std::uint64_t{1} << index;
  from.next = static_cast<std::uint16_t>((index + 1U) % block_ports);
  return static_cast<std::uint16_t>(first + from.number * block_ports + index);
}

std::uint16_t ephemeral_ports::take() {
  for (block& each : blocks_) {
    if (const std::uint16_t port = take_from(each)) return port;
  }
  const auto start = static_cast<std::uint16_t>(random_u32() % block_count);
  for (std::uint16_t step = 0; step < block_count; ++step) {
    const auto number = static_cast<std::uint16_t>((start + step) % block_count);
    socket_or_error held = bound_to({"block", 0, number});
    if (held.error == EADDRINUSE) continue;
    if (held.error != 0) return 0;
    blocks_.push_back({.holder = std::move(held.socket), .number = number});
    return take_from(blocks_.back());
  }
  return 0;
}

void ephemeral_ports::give_back(std::uint16_t port) noexcept {
  if (port < first) return;
  const auto number = static_cast<std::uint16_t>((port - first) / block_ports);
  const auto found = std::ranges::find(blocks_, number, &block::number);
  if (found != blocks_.end()) found->taken &= ~(std::uint64_t{1} << ((port - first) % block_ports));
}

}  // namespace verbena::softdev::cm
