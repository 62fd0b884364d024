// SPDX-License-Identifier: MIT
// Who learns what the responders of a process's requests answer.
#pragma once

#include <cstdint>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

class queue_pair;

/// A request over RC that is answered after the path took it.
struct answered_request {
  softdev::opcode opcode = opcode::send;
  std::uint32_t psn = 0;
  std::span<const segment> sinks;  ///< of a read, with the data
};

/// Learns of answers; requests are given to the path of the observer (request_routes::observe).
/// Threads: thread-safe; the send lock of the queue pair is held. Must not call the engine.
class traffic_observer {
 public:
  /// The responder answered `which`, and by that all sends and writes before it.
  virtual void answered(queue_pair& sender, const answered_request& which,
                        const response& what) noexcept = 0;

 protected:
  ~traffic_observer() = default;
};

}  // namespace verbena::softdev
