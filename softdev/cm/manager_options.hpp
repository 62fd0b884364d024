// SPDX-License-Identifier: MIT
// The times and limits of a connection manager, which tests change.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace verbena::softdev::cm {

using time_point = std::chrono::steady_clock::time_point;

/// How long, and how many. Threads: value.
struct manager_options {
  std::chrono::milliseconds answer_timeout{60'000};     ///< for a reply to a request
  std::chrono::milliseconds listener_patience{100};     ///< for somebody who listens
  std::chrono::milliseconds ready_timeout{60'000};      ///< for the confirmation of a reply
  std::chrono::milliseconds announce_timeout{5'000};    ///< for the first frame of a new peer
  std::chrono::milliseconds disconnect_timeout{5'000};  ///< for the confirmation of the end
  std::chrono::milliseconds timewait{1'000};
  std::size_t max_newcomers = 256;  ///< peers that have said nothing yet
  unsigned max_backlog = 1024;
  std::chrono::milliseconds first_repeat{250};  ///< of a message to another host; then doubled
  std::chrono::milliseconds longest_repeat{4'000};
  std::size_t max_half_open = 256;  ///< connections that other hosts have begun, not established
};

/// How many frames of one endpoint are read before others have their turn.
inline constexpr int frames_per_turn = 8;

/// Names of the descriptors that the thread of a manager waits for; the number is that of ...
enum class source_kind : std::uint8_t {
  wake,       ///< (the program has set an earlier deadline)
  port,       ///< a port: a peer connects
  newcomer,   ///< a newcomer
  endpoint,   ///< an endpoint: its peer sends a frame
  published,  ///< an endpoint: a process looks for its address
  remote,     ///< a conversation with another host: its endpoint sends a frame
};

}  // namespace verbena::softdev::cm
