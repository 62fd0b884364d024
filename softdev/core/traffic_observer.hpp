// SPDX-License-Identifier: MIT
// The observer of the answers to a process's requests.
#pragma once

#include <cstdint>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

class queue_pair;

/// A request over RC that is answered after the path has taken it.
struct answered_request {
  softdev::opcode opcode = opcode::send;
  std::uint32_t psn = 0;
  std::span<const segment> sinks;  ///< of a read, with the data
};

/// Receives the answers to requests. The requests go to the path of the observer
/// (request_routes::observe). Threads: thread-safe; called with the send lock of the queue pair
/// held. Must not call the engine.
class traffic_observer {
 public:
  /// Called when the responder has answered `which`, and thereby all earlier sends and writes.
  virtual void answered(queue_pair& sender, const answered_request& which,
                        const response& what) noexcept = 0;

 protected:
  ~traffic_observer() = default;
};

}  // namespace verbena::softdev
