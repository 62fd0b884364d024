// SPDX-License-Identifier: MIT
// Hears from the kernel that addresses or interfaces of this host changed.
#pragma once

#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// A netlink socket (rtnetlink(7)) for changes of IP addresses and of interfaces. Threads: one
/// thread at a time.
class address_watch {
 public:
  /// Without a socket where the kernel gives none: then changes are not heard of.
  [[nodiscard]] static address_watch open() noexcept;

  address_watch() noexcept = default;

  /// Readable when something changed; -1 without a socket.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// Forgets what was heard so far. Does not block.
  void drain() const noexcept;

 private:
  explicit address_watch(unique_fd socket) noexcept : socket_(std::move(socket)) {}
  unique_fd socket_;
};

}  // namespace verbena::softdev
