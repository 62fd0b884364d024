// SPDX-License-Identifier: MIT
// Two processes on two processors, connected by a socket, for the two sides of a measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/fd.hpp"

namespace bench {

/// This process and a child made by fork, each pinned to a processor of its own. A failure of the
/// pair itself (no second processor, exit of the peer) ends the program with a message. Threads:
/// one thread at a time.
class process_pair {
 public:
  /// Forks. Both processes return from it; the child is pinned to the second allowed processor.
  static process_pair start();

  [[nodiscard]] bool is_child() const noexcept { return child_ == 0; }
  [[nodiscard]] bool is_parent() const noexcept { return !is_child(); }

  /// Sends bytes to the other process. Blocks.
  void send(std::span<const std::byte> bytes) const;
  /// Receives exactly `bytes.size()` bytes. Blocks.
  void receive(std::span<std::byte> bytes) const;
  /// Receives exactly `bytes.size()` bytes. Polls the socket, does not sleep.
  void receive_spinning(std::span<std::byte> bytes) const;
  /// Waits until the other process has called meet() as often as this process. Blocks.
  void meet() const;

  /// Connects the two processes by TCP over the loopback interface, without delay of small
  /// segments.
  [[nodiscard]] verbena::unique_fd connect_over_tcp() const;

  /// In the parent: waits for the child and returns the program's exit status. In the child: 0.
  [[nodiscard]] int finish() const;

 private:
  void receive_with(int flags, std::span<std::byte> bytes) const;
  process_pair(int child, verbena::unique_fd socket) noexcept
      : child_(child), socket_(static_cast<verbena::unique_fd&&>(socket)) {}

  int child_;
  verbena::unique_fd socket_;
};

/// Prints `what` and ends the program with status 1.
[[noreturn]] void fail(const char* what);

}  // namespace bench
