// SPDX-License-Identifier: MIT
// Where the packets of an engine go.
#pragma once

#include "softdev/wire/packet.hpp"

namespace verbena::softdev {
class queue_pair;
}

namespace verbena::softdev::wire {

/// Takes packets. Threads: one thread at a time.
class packet_output {
 public:
  /// True if `put` can take a packet.
  [[nodiscard]] virtual bool has_room() noexcept = 0;
  /// Sends a packet of a queue pair to its peer. The payload is valid during the call only.
  /// Precondition: has_room().
  virtual void put(const queue_pair& from, const packet& what) noexcept = 0;

 protected:
  ~packet_output() = default;
};

}  // namespace verbena::softdev::wire
