// SPDX-License-Identifier: MIT
// The descriptors that a link's service waits for, in one epoll descriptor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "softdev/peers/peer.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// One thread at a time, except fd().
class service_descriptors {
 public:
  /// What is readable: the number is a slot, or the number of a pending connection.
  enum class source : std::uint8_t { listener, pending, peer_socket, peer_process };
  struct event {
    source from;
    std::uint32_t number;
  };
  static constexpr std::size_t most_events = 64;
  /// What a peer's socket is watched for: a message, room for one, or either.
  enum class wanted : std::uint8_t { message, room, either };

  /// Errors: the errno of epoll_create1(2).
  [[nodiscard]] result<void> open();
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// Errors of both: the errno of epoll_ctl(2).
  [[nodiscard]] result<void> add_listener(int fd);
  [[nodiscard]] result<void> add_pending(int fd, std::uint32_t number);
  /// Watches the socket of a peer, which may be watched already.
  void watch_socket(peer& of, wanted what);
  /// Watches for the exit of the peer's process.
  void watch_process(peer& of);
  void stop(peer& which);

  /// The readable descriptors now. Does not block.
  [[nodiscard]] std::span<const event> events() noexcept;

  /// For a child of fork.
  void close() noexcept { epoll_.reset(); }

 private:
  [[nodiscard]] bool control(int operation, int fd, std::uint32_t events, event about) noexcept;

  unique_fd epoll_;
  std::array<event, most_events> found_{};
};

}  // namespace verbena::softdev
