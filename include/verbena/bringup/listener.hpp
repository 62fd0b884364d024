// SPDX-License-Identifier: MIT
// Accepts peers by TCP without waiting for any one of them.
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
  /// A connection that has not sent its whole greeting after this time is closed.
  std::chrono::nanoseconds greeting_timeout = std::chrono::seconds(5);
  /// Connections that may be in their greeting at once; the oldest is closed for a newer one.
  std::size_t max_greeting = 64;
  /// What the kernel queues beyond that, see listen(2).
  int backlog = 128;
  stream_options streams;  ///< of the connections that are handed out
};

/// What a listener has seen so far.
struct listener_statistics {
  std::uint64_t accepted = 0;       ///< greeted and handed out
  std::uint64_t garbage = 0;        ///< did not speak the protocol
  std::uint64_t wrong_version = 0;  ///< spoke no version of ours; was told which we speak
  std::uint64_t slow = 0;           ///< did not greet in time, or was displaced by newer ones
  std::uint64_t closed = 0;         ///< went away before greeting
};

/// A listening socket and the connections that are still greeting. A peer that sends garbage, is
/// slow, speaks another version or goes away is closed, counted and named through the log hook
/// (level info); it delays nobody else. Threads: one thread at a time.
class listener {
 public:
  /// Listens at `at`; an empty host means all addresses of the machine, port 0 any free port.
  /// Errors: EADDRINUSE, EADDRNOTAVAIL, EACCES and the like with a remedy.
  [[nodiscard]] static result<listener> open(const address& at, listener_options options = {});

  /// Returns the next peer that greeted. Blocks until `until`; `deadline::after(0ns)` only looks.
  /// Errors: `timed_out`; EMFILE, ENFILE, ENOMEM of accept4(2), after which the listener goes on
  /// when the shortage is over.
  [[nodiscard]] result<stream> accept(deadline until);

  /// The address it listens at, with the port that the system chose.
  [[nodiscard]] const address& local_address() const noexcept { return local_; }
  /// The port it listens at, also when any free one was asked for.
  [[nodiscard]] std::uint16_t port() const noexcept { return local_.port; }
  /// What it has seen since open().
  [[nodiscard]] listener_statistics statistics() const noexcept { return statistics_; }
  /// Readable, for poll(2), when accept() has something to look at. Keep calling accept() at times
  /// even when it is not: greeting timeouts are kept there.
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

  listener(unique_fd socket, unique_fd epoll, address local, listener_options options) noexcept;
  stream hand_out(std::list<greeting>::iterator connection);
  result<void> take_connections();
  std::list<greeting>::iterator oldest_ungreeted() noexcept;
  void add(unique_fd socket, std::string peer);
  void close_slow();
  /// Reads what has arrived; removes the connection when it failed.
  void advance(std::list<greeting>::iterator connection);
  /// Answers a whole greeting; false when the connection is to be removed.
  bool answer(greeting& connection);
  deadline next_deadline(deadline until) const noexcept;

  unique_fd socket_;
  unique_fd epoll_;
  address local_;
  listener_options options_;
  listener_statistics statistics_;
  std::list<greeting> greeting_;  // oldest first
};

}  // namespace verbena::inline VERBENA_ABI::bringup
