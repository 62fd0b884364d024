// SPDX-License-Identifier: MIT
// Two processes that communicate by packets: over the loopback interface, or each in a network
// namespace of its own with a veth pair between them.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "bench/local/process_pair.hpp"
#include "verbena/base/fd.hpp"

namespace bench {

enum class medium : std::uint8_t { loopback, veth };

/// The two processes, and their addresses. Threads: one thread at a time.
class hosts {
 public:
  /// Sets the variables with which soft0 uses packets, forks, and makes the network. Both processes
  /// return from it. Ends the program if the network cannot be made.
  static hosts start(medium network);

  [[nodiscard]] const process_pair& pair() const noexcept { return pair_; }
  [[nodiscard]] bool is_child() const noexcept { return pair_.is_child(); }
  /// Returns a UDP socket that is connected to that of the other process. Blocks until both have
  /// one.
  [[nodiscard]] verbena::unique_fd connect_over_udp() const;
  /// Returns a TCP connection between the processes, without delay of small segments. Blocks.
  [[nodiscard]] verbena::unique_fd connect_over_tcp() const;

 private:
  hosts(process_pair&& pair, medium network) noexcept
      : pair_(static_cast<process_pair&&>(pair)), network_(network) {}
  [[nodiscard]] in_addr address(bool child) const noexcept;
  [[nodiscard]] in_addr own() const noexcept { return address(is_child()); }
  [[nodiscard]] in_addr peer() const noexcept { return address(!is_child()); }
  [[nodiscard]] sockaddr_in exchange(const verbena::unique_fd& socket) const;
  void make_veth_pair() const;

  process_pair pair_;
  medium network_;
};

/// The current time of the clock that measures.
inline std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

/// Returns the seconds since `start`.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(now() - start).count();
}

}  // namespace bench
