// SPDX-License-Identifier: MIT
// Long requests over RC whose payload is in shareable memory: the ring carries a reference, and the
// responder copies the payload from the requester's memory (pull_payload.hpp). The memory belongs
// to the request until its answer arrives, so its content does not change. If a request ends
// without an answer, the queue pair first publishes another generation. A responder that copies
// later finds that the generation of the reference is no longer valid.
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/core/spread_counter.hpp"
#include "softdev/fabric/endpoint_state.hpp"

namespace verbena::softdev {

/// Threads: thread-safe for different senders; the send lock of the sender is held. Does not
/// allocate.
class reference_sender {
 public:
  explicit reference_sender(endpoint_state& state) noexcept : state_(state) {}

  /// Publishes the first generation of a queue pair that is connected.
  void begin(const queue_pair& sender, connection& by) noexcept;
  /// Returns whether to send the next request of `sender` by reference.
  [[nodiscard]] bool takes(queue_pair& sender, connection& by, const message& what) noexcept {
    return what.length >= min_bytes && may_refer(sender, by, what);
  }
  /// Sends a request by reference.
  [[nodiscard]] pushed push(queue_pair& sender, connection& by, const message& what) noexcept;

  /// Notes that the responder could not read the payload of a request: this request and some that
  /// follow are sent through the ring. The first request in each arena is refused, because the
  /// responder requests the mapping of the arena then.
  static void note_refusal(connection& by) noexcept;
  /// Invalidates the references that were sent, because requests of `sender` end without an answer.
  void disown(const queue_pair& sender, connection& by) noexcept;

  /// Requests sent by reference; approximate if several threads post.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_.sum(); }

 private:
  /// From this length on, a reference costs less than the second copy.
  static constexpr std::uint32_t min_bytes = 4096;

  [[nodiscard]] bool may_refer(queue_pair& sender, connection& by, const message& what) noexcept;

  endpoint_state& state_;
  std::atomic<std::uint64_t> generations_{0};  ///< the last one; 0 is none
  spread_counter sent_;
};

}  // namespace verbena::softdev
