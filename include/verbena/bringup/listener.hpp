// SPDX-License-Identifier: MIT
// Accepts peers over TCP; slow peers do not delay others.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>

#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// How to listen. Threads: immutable value.
struct listener_options {
  /// The time that a connection has to send its greeting; then it is closed.
  std::chrono::nanoseconds greeting_timeout = std::chrono::seconds(5);
  /// Connections without a complete greeting. At the limit, a new connection replaces the oldest.
  std::size_t max_greeting = 64;
  /// The backlog of the kernel, see listen(2).
  int backlog = 128;
  stream_options streams;  ///< limits of the accepted streams
};

/// Counters of a listener. Threads: immutable value.
struct listener_statistics {
  std::uint64_t accepted = 0;       ///< returned by accept()
  std::uint64_t garbage = 0;        ///< sent no valid greeting
  std::uint64_t wrong_version = 0;  ///< had no common version; received the versions of this side
  std::uint64_t slow = 0;    ///< sent no greeting in time, or was replaced by a newer connection
  std::uint64_t closed = 0;  ///< closed by the peer before the greeting
};

/// A listening socket, and its connections without a complete greeting. A peer that sends garbage,
/// is slow, has another version or disconnects is closed, counted and logged (level info). It does
/// not delay other peers. Threads: one thread at a time.
class listener {
 public:
  /// Listens at `at`. An empty host means all addresses of the host, port 0 any free port.
  /// Errors: the errno of the system call, for example EADDRINUSE, EADDRNOTAVAIL or EACCES.
  [[nodiscard]] static result<listener> open(const address& at, listener_options options = {});

  /// Returns the next peer with a valid greeting. Blocks until `until`; `deadline::after(0ns)` does
  /// not block. Errors: `timed_out`; EMFILE, ENFILE or ENOMEM of accept4(2), after which the
  /// listener remains usable.
  [[nodiscard]] result<stream> accept(deadline until);

  /// Returns the address of the socket, with the port that the system chose.
  [[nodiscard]] const address& local_address() const noexcept { return local_; }
  /// Returns the port of the socket, also if open() was called with port 0.
  [[nodiscard]] std::uint16_t port() const noexcept { return local_.port; }
  /// Returns the counters since open().
  [[nodiscard]] listener_statistics statistics() const noexcept { return statistics_; }
  /// Returns a descriptor for poll(2), readable if accept() has work to do. Call accept() at
  /// intervals also if it is not readable: accept() applies the greeting timeouts.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

 private:
  struct greeting {
    unique_fd socket;
    std::string peer;
    deadline until;
    std::array<std::byte, greeting_bytes> bytes{};
    std::size_t count = 0;
    std::uint16_t version = 0;
    bool greeted = false;
  };

  listener(unique_fd socket, unique_fd epoll, address local, listener_options options);
  stream hand_out(std::list<greeting>::iterator connection);
  result<void> take_connections();
  std::list<greeting>::iterator oldest_ungreeted() noexcept;
  void add(unique_fd socket, std::string peer);
  void close_slow();
  /// Reads the bytes that have arrived; removes the connection if it failed.
  void advance(std::list<greeting>::iterator connection);
  /// Answers a complete greeting; returns false if the connection must be removed.
  bool answer(greeting& connection);
  deadline next_deadline(deadline until) const noexcept;

  unique_fd socket_;
  unique_fd epoll_;
  address local_;
  shared_text name_;  // of local_, for errors
  listener_options options_;
  listener_statistics statistics_;
  std::list<greeting> greeting_;  // oldest first
};

}  // namespace verbena::inline VERBENA_ABI::bringup
