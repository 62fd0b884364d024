// SPDX-License-Identifier: MIT
// Notification by the kernel that addresses or interfaces of this host changed.
#pragma once

#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// A netlink socket (rtnetlink(7)) for changes of IP addresses and of interfaces. Threads: one
/// thread at a time.
class address_watch {
 public:
  /// Opens the socket. If this fails, returns an object without a socket, which reports no changes.
  [[nodiscard]] static address_watch open() noexcept;

  address_watch() noexcept = default;

  /// Returns the descriptor, which is readable when something changed; -1 without a socket.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// Discards the messages received so far. Does not block.
  void drain() const noexcept;

 private:
  explicit address_watch(unique_fd socket) noexcept : socket_(std::move(socket)) {}
  unique_fd socket_;
};

}  // namespace verbena::softdev
