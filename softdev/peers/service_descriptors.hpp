// SPDX-License-Identifier: MIT
// The descriptors that a link's service waits for.
#pragma once

#include <cstdint>
#include <span>

#include "softdev/ipc/reactor.hpp"
#include "softdev/peers/peer.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// One thread at a time, except fd().
class service_descriptors {
 public:
  /// The kinds of descriptors. A source's number is a slot, or the number of a pending connection.
  enum class source : std::uint8_t { listener, pending, peer_socket, peer_process };
  /// Errors: the errno of epoll_create1(2).
  [[nodiscard]] result<void> open() { return reactor_.open(); }
  [[nodiscard]] int fd() const noexcept { return reactor_.fd(); }

  /// Both return 0 or the errno of epoll_ctl(2).
  [[nodiscard]] int add_listener(int fd) const noexcept {
    return reactor_.watch(fd, {source::listener, 0});
  }
  [[nodiscard]] int add_pending(int fd, std::uint32_t number) const noexcept {
    return reactor_.watch(fd, {source::pending, number});
  }
  /// Watches the socket of a peer, which may be watched already.
  void watch_socket(peer& of, reactor::wanted what) const noexcept;
  /// Watches for the exit of the peer's process.
  void watch_process(peer& of) const noexcept;
  void stop(peer& which) const noexcept;

  /// Returns the descriptors that are ready. Does not block.
  [[nodiscard]] std::span<const reactor::source> ready() noexcept { return reactor_.wait(0); }

  /// Closes the epoll descriptor in a child of fork.
  void close() noexcept { reactor_.close(); }

 private:
  reactor reactor_;
};

}  // namespace verbena::softdev
