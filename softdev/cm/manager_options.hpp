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
};

/// Names of the descriptors that the thread of a manager waits for; the number is that of ...
enum class source_kind : std::uint8_t {
  wake,       ///< (the program has set an earlier deadline)
  port,       ///< a port: a peer connects
  newcomer,   ///< a newcomer
  endpoint,   ///< an endpoint: its peer sends a frame
  published,  ///< an endpoint: a process looks for its address
};

}  // namespace verbena::softdev::cm
