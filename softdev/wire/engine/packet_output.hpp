// SPDX-License-Identifier: MIT
// Where the packets of an engine go.
#pragma once

#include <cstdint>

#include "softdev/wire/packet.hpp"

namespace verbena::softdev {
class queue_pair;
struct datagram_route;
}  // namespace verbena::softdev

namespace verbena::softdev::wire {

/// What the engine has counted.
enum class packet_event : std::uint8_t {
  retransmitted,      ///< a packet of a request is put that was put before
  timed_out,          ///< packets are sent again because their acknowledgement did not come in time
  retries_exceeded,   ///< a request failed because of that
  notification_sent,  ///< a CNP is put
  notification_handled,  ///< a CNP came, and fewer packets are in flight
  notification_ignored   ///< a CNP came, and has no effect
};

/// Takes packets. Threads: as the engine that uses it. Implementations must not take a lock of a
/// queue pair: the caller holds one.
class packet_output {
 public:
  /// True if `put` can take a packet.
  [[nodiscard]] virtual bool has_room() noexcept = 0;
  /// Sends a packet of a queue pair to its peer. The payload is valid during the call only, and can
  /// be memory of the program: returns false if it is not accessible. Precondition: has_room(). If
  /// another thread took the room since, the packet is lost.
  [[nodiscard]] virtual bool put(const queue_pair& from, const packet& what) noexcept = 0;
  /// As `put`, for a packet of UD: sends it from the source of `by` to its destination.
  [[nodiscard]] virtual bool put_datagram(const datagram_route& by,
                                          const packet& what) noexcept = 0;
  /// Counts something. Called with the lock of a queue pair.
  virtual void count(packet_event /*what*/) noexcept {}
  /// packet_engine::next_deadline is earlier now.
  virtual void deadline_changed() noexcept {}

 protected:
  ~packet_output() = default;
};

}  // namespace verbena::softdev::wire
