// SPDX-License-Identifier: MIT
// Accepts peers over TCP; slow peers do not delay others.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

namespace detail {
class greeter;
void destroy(greeter& state) noexcept;
}  // namespace detail

/// Options of a listener. Threads: immutable value.
struct listener_options {
  /// The time limit for a peer's greeting. If the limit passes, the connection is closed.
  std::chrono::nanoseconds greeting_timeout = std::chrono::seconds(5);
  /// The maximum number of connections that wait for accept(). At the limit, a new connection waits
  /// in the backlog until the oldest one without a complete greeting has been open for
  /// `min_greeting_time`, and then replaces it.
  std::size_t max_greeting = 64;
  std::chrono::nanoseconds min_greeting_time = std::chrono::seconds(1);  ///< see max_greeting
  /// The maximum number of connections that the kernel queues until the listener takes them by
  /// accept4(2); the kernel reduces it to `net.core.somaxconn`. If the queue is full, the kernel
  /// drops the SYN, which the kernel of the peer retransmits, first after 1 s. See listen(2).
  int backlog = 4096;
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

/// A listening socket, and the connections that wait for accept(). If a peer sends
/// garbage, is slow, has no common version or disconnects, its connection is closed, counted and
/// logged (level info). Such a peer does not delay others. Threads: one thread at a time.
class listener {
 public:
  /// Moves the listener; the other object must not be used afterwards.
  listener(listener&& other) noexcept = default;
  /// Closes this listener and moves the other one.
  listener& operator=(listener&& other) noexcept = default;

  /// Listens at `at`. An empty host means all addresses of the host, port 0 any free port. Blocks
  /// while a host name is resolved, without a time limit of its own; an IP address is not resolved.
  /// Errors: the errno of the system call, for example EADDRINUSE, EADDRNOTAVAIL or EACCES.
  [[nodiscard]] static result<listener> open(const address& at, listener_options options = {});

  /// Returns the next peer with a valid greeting. Blocks until `until`; `deadline::after(0ns)` does
  /// not block. Errors: `timed_out`; EMFILE, ENFILE, ENOBUFS or ENOMEM of accept4(2), after which
  /// the listener remains usable. It accepts no further connections for 100 ms then, but serves the
  /// connections that it has.
  [[nodiscard]] result<stream> accept(deadline until);
  /// Accepts in steps that do not block. The listener must outlive the steps.
  [[nodiscard]] steps<stream> accept_in_steps(deadline until);

  /// Returns the address of the socket, with the port that the system chose.
  [[nodiscard]] const address& local_address() const noexcept;
  /// Returns the port of the socket, even if open() was called with port 0.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Returns the counters since open().
  [[nodiscard]] listener_statistics statistics() const noexcept;
  /// Returns a descriptor for poll(2), which is readable if accept() has work to do. It stays
  /// readable until accept() has returned all peers with a complete greeting. Call accept() at
  /// intervals even if it is not readable, because accept() applies the greeting timeouts.
  [[nodiscard]] int fd() const noexcept;

 private:
  friend class detail::greeter;
  explicit listener(detail::greeter* state) noexcept : state_(state) {}
  [[nodiscard]] detail::greeter& state() const;

  verbena::detail::sole_owner<detail::greeter> state_;
};

}  // namespace verbena::inline VERBENA_ABI::bringup
