// SPDX-License-Identifier: MIT
// What the parts of link's implementation share, and nobody else needs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "softdev/peers/link.hpp"

namespace verbena::softdev {

/// Who an epoll event is about; the number is a slot, or names a pending socket.
enum class event_source : std::uint8_t { listener, pending, peer_socket, peer_process };

[[nodiscard]] constexpr std::uint64_t tag_of(event_source source, std::uint32_t number) noexcept {
  return (std::uint64_t{static_cast<std::uint8_t>(source)} << 32) | number;
}

/// An accepted connection that has not said who it is.
struct link::pending_socket {
  unique_fd socket;
  pid_t pid = 0;
  std::uint32_t number = 0;
  link::time_point give_up_at;
};

inline constexpr std::size_t max_pending_sockets = 64;
/// Of one process: a process that says nothing must not keep others out.
inline constexpr std::ptrdiff_t max_pending_of_process = 16;
/// Pairings of one process that ended because it stayed within a section; then it gets no more.
inline constexpr std::ptrdiff_t max_times_inside = 3;
inline constexpr int messages_per_turn = 32;
inline constexpr std::chrono::milliseconds retry_interval{1};
/// For a process that takes no connection for a long time: it is stopped.
inline constexpr std::chrono::milliseconds overdue_interval{100};
inline constexpr std::chrono::milliseconds departed_interval{100};
inline constexpr std::chrono::milliseconds full_scan_interval{10};
/// How long the last records of a process that exited are waited for.
inline constexpr std::chrono::seconds drain_time{1};

}  // namespace verbena::softdev
