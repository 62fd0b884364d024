// SPDX-License-Identifier: MIT
// The interface through which the engine sends packets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softdev/wire/packet.hpp"

namespace verbena::softdev {
class queue_pair;
struct datagram_route;
}  // namespace verbena::softdev

namespace verbena::softdev::wire {

/// Events that the engine counts.
enum class packet_event : std::uint8_t {
  retransmitted,         ///< a packet of a request was retransmitted
  timed_out,             ///< an ACK timeout expired
  retries_exceeded,      ///< a request failed because its retry count was exhausted
  notification_sent,     ///< a CNP was sent
  notification_handled,  ///< a CNP reduced a congestion window
  notification_ignored,  ///< a CNP had no effect
  selective_ack_sent,
  selective_ack_received
};
inline constexpr std::size_t packet_event_count = 8;
static_assert(static_cast<std::size_t>(packet_event::selective_ack_received) + 1 ==
              packet_event_count);

/// Sends packets. Threads: as the engine that uses it. Implementations must not take a lock of a
/// queue pair, because the caller holds one.
class packet_output {
 public:
  /// True if `put` can accept a packet.
  [[nodiscard]] virtual bool has_room() noexcept = 0;
  /// Sends a packet of a queue pair to its peer. The payload is valid only during the call. It can
  /// be memory of the program: returns false if the memory is not accessible. Precondition:
  /// has_room(). If another thread has used the room in the meantime, the packet is lost.
  [[nodiscard]] virtual bool put(const queue_pair& from, const packet& what) noexcept = 0;
  /// Sends a packet of UD like `put`, from the source of `by` to its destination.
  [[nodiscard]] virtual bool put_datagram(const datagram_route& by,
                                          const packet& what) noexcept = 0;
  /// Counts an event. The caller can hold a lock of a queue pair.
  virtual void count(packet_event /*what*/) noexcept {}
  /// Called when packet_engine::next_deadline has become earlier.
  virtual void deadline_changed() noexcept {}

 protected:
  ~packet_output() = default;
};

}  // namespace verbena::softdev::wire
