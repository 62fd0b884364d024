// SPDX-License-Identifier: MIT
// Long requests over RC whose payload lies in shareable memory: the ring carries a reference, and
// the responder copies the payload from the requester's memory (pull_payload.hpp). The memory
// belongs to the request until its answer comes, so nothing changes there meanwhile. If a request
// ends without an answer, the queue pair publishes another generation first: a responder that
// copied then finds that the one of the reference is gone.
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/core/spread_counter.hpp"
#include "softdev/fabric/endpoint_state.hpp"

namespace verbena::softdev {

/// Threads: thread-safe for different senders: with the send lock of the sender held. Does not
/// allocate.
class reference_sender {
 public:
  explicit reference_sender(endpoint_state& state) noexcept : state_(state) {}

  /// Publishes the first generation of a queue pair that is connected.
  void begin(const queue_pair& sender, connection& by) noexcept;
  /// Whether the request that the path was given is to be sent by reference.
  [[nodiscard]] bool takes(queue_pair& sender, connection& by, const message& what) noexcept {
    return what.length >= min_bytes && may_refer(sender, by, what);
  }
  /// Sends such a request.
  [[nodiscard]] pushed push(queue_pair& sender, connection& by, const message& what) noexcept;

  /// The responder cannot read the payload of a request: it and some that follow are sent through
  /// the ring. The first request in each arena is refused, because the responder maps it then.
  static void note_refusal(connection& by) noexcept;
  /// References that were sent become void: requests of `sender` end without an answer.
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
