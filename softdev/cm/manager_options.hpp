// SPDX-License-Identifier: MIT
// The clock, timeouts and limits of a connection manager, which tests change.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace verbena::softdev::cm {

using time_point = std::chrono::steady_clock::time_point;

/// Timeouts and limits. Threads: value.
struct manager_options {
  time_point (*clock)() noexcept = std::chrono::steady_clock::now;
  bool has_thread = true;                            ///< false: the caller calls manager::turn()
  std::chrono::milliseconds answer_timeout{60'000};  ///< for a reply to a request
  std::chrono::milliseconds listener_timeout{
      100};  ///< for a process that listens; then a rejection
  std::chrono::milliseconds ready_timeout{60'000};      ///< for the confirmation of a reply
  std::chrono::milliseconds announce_timeout{5'000};    ///< for the first frame of a new peer
  std::chrono::milliseconds disconnect_timeout{5'000};  ///< for the confirmation of the end
  std::chrono::milliseconds timewait{1'000};
  std::size_t max_incoming = 256;  ///< peers that have sent no frame yet
  unsigned max_backlog = 1024;
  std::chrono::milliseconds first_repeat{250};  ///< of a message to another host; then doubled
  std::chrono::milliseconds longest_repeat{4'000};
  std::size_t max_early = 64;         ///< requests of other hosts for which no process listens yet
  std::size_t max_early_of_host = 8;  ///< of these, requests of one host
  std::size_t max_half_open = 256;    ///< connections begun by other hosts, not yet established
  std::size_t max_ended = 4096;       ///< of other hosts: ended ones whose answers are kept
};

/// The number of frames that are read from one endpoint before those of other endpoints.
inline constexpr int frames_per_turn = 8;

/// The kinds of descriptors on which the thread of a manager waits. Each comment says what the
/// number of the descriptor identifies, and when it is ready.
enum class source_kind : std::uint8_t {
  wake,       ///< nothing: an earlier deadline, a message, or the end
  port,       ///< a port: a peer connects
  incoming,   ///< an incoming connection
  endpoint,   ///< an endpoint: its peer sends a frame
  published,  ///< an endpoint: a process looks for its address
  remote,     ///< an exchange with another host: its endpoint sends a frame
};

}  // namespace verbena::softdev::cm
