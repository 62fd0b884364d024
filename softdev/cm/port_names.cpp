// SPDX-License-Identifier: MIT
#include "softdev/cm/port_names.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbena/base/random.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr int backlog = 1024;  // the kernel takes as many as net.core.somaxconn says
constexpr int accepts_per_turn = 64;

local_name name_of(const char* kind, unsigned first, unsigned second) noexcept {
  return local_name("verbena-cm-%s.%u.%x.%u", kind, static_cast<unsigned>(::geteuid()), first,
                    second);
}

local_name port_name(port_space space, std::uint16_t port) noexcept {
  return name_of("port", static_cast<unsigned>(space), port);
}

socket_or_error bound_to(const local_name& where) noexcept {
  socket_or_error made = new_local_socket();
  if (made.socket && ::bind(made.socket.get(), where.get(), where.length()) != 0)
    return {{}, errno};
  return made;
}

}  // namespace

socket_or_error claim_port(port_space space, std::uint16_t port) noexcept {
  return bound_to(port_name(space, port));
}

int open_port(int socket) noexcept { return ::listen(socket, backlog) == 0 ? 0 : errno; }

socket_or_error accept_peer(int socket) noexcept {
  return accept_own_user(socket, accepts_per_turn);
}

socket_or_error connect_to_port(port_space space, std::uint16_t port) noexcept {
  return connect_to_name(port_name(space, port));
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
    socket_or_error held = bound_to(name_of("block", 0, number));
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
