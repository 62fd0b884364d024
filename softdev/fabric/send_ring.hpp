// SPDX-License-Identifier: MIT
// Sends requests through the ring to a peer, in order; a long request takes several records.
#pragma once

#include <cstddef>
#include <span>

#include "softdev/fabric/endpoint_state.hpp"
#include "softdev/fabric/send_reference.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, with the send lock of the sender held.
class ring_sender {
 public:
  explicit ring_sender(endpoint_state& state) noexcept : state_(state), references_(state) {}

  /// Returns whether the request was begun before and waits for room.
  [[nodiscard]] static bool has_begun(const connection& by, const message& what) noexcept {
    return by.sent.partly && by.sent.psn == what.psn && by.sent.bytes <= what.length;
  }
  /// Sends a request, or its rest, to the process `by.to`, and short requests that follow it. `out`
  /// is new.
  void send(queue_pair& sender, connection& by, const message& what, std::span<const segment> local,
            response& out) noexcept;
  /// Announces the short requests that send() only committed. A receiver that polls sees them
  /// earlier.
  static void announce(connection& by) noexcept;
  [[nodiscard]] reference_sender& references() noexcept { return references_; }
  [[nodiscard]] const reference_sender& references() const noexcept { return references_; }

 private:
  [[nodiscard]] pushed push_parts(connection& by, const message& what,
                                  std::span<const segment> local, const std::byte*& bad) noexcept;
  [[nodiscard]] std::uint8_t send_following(queue_pair& sender, connection& by) noexcept;

  endpoint_state& state_;
  reference_sender references_;
};

/// Signals the completion channel of the queue pair `receiver`, once per arming. The request was
/// announced before: either this thread sees the arming, or the thread that armed sees the request.
/// Returns whether a signal was sent after which a thread of the peer's program receives the
/// request.
bool signal_receiver(peer& to, connection& by, const announced_requests& what) noexcept;

}  // namespace verbena::softdev
