// SPDX-License-Identifier: MIT
// Answers reads of peers that cannot access the memory themselves: sends the data through the ring.
#pragma once

#include <cstddef>
#include <span>

#include "softdev/fabric/endpoint_state.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, with the receive lock of the queue pair held, except for run().
class read_answerer {
 public:
  explicit read_answerer(endpoint_state& state) noexcept : state_(state) {}

  /// Begins to answer the read that the responder has begun.
  void begin(queue_pair& target) noexcept;
  /// Ends the answer to a read that the responder no longer executes, because its queue pair was
  /// reset, is destroyed or has failed: the requester's timeout then counts.
  void give_up(const queue_pair& target, connection& by) noexcept;
  /// Continues the answers that wait for room. Takes locks of queue pairs.
  void run() noexcept {
    if (!waiting_.empty()) run_waiting();
  }

 private:
  void run_waiting() noexcept;
  void go_on(queue_pair& target) noexcept;
  [[nodiscard]] pushed push_data(queue_pair& target, connection& by) noexcept;

  endpoint_state& state_;
  active_set waiting_;  ///< own queue pairs with a read to answer
};

}  // namespace verbena::softdev
