// SPDX-License-Identifier: MIT
#include "softdev/host/address_watch.hpp"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace verbena::softdev {

address_watch address_watch::open() noexcept {
  unique_fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!socket) return {};
  sockaddr_nl wanted{};
  wanted.nl_family = AF_NETLINK;
  wanted.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_LINK;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&wanted), sizeof wanted) != 0)
    return {};
  return address_watch(std::move(socket));
}

void address_watch::drain() const noexcept {
  // The addresses are read from the kernel afterwards, so the content of the messages does not
  // matter, and lost messages (ENOBUFS) do no harm.
  std::array<char, 4096> message;
  while (::recv(socket_.get(), message.data(), message.size(), 0) > 0 || errno == ENOBUFS) {
  }
}

}  // namespace verbena::softdev
