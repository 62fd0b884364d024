// SPDX-License-Identifier: MIT
// Events of completion queues that wait for more completions (ibv_modify_cq(3)), and when they are
// due.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "softdev/core/completion_queue.hpp"
#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// Raises delayed events. Each operation visits the queues whose events are moderated. Threads:
/// thread-safe. Allocates in add() only.
class event_delays {
 public:
  /// Adds a queue; further calls have no effect. Remove the queue before it is destroyed.
  void add(completion_queue& queue);
  /// Removes a queue. After that, none of its events is raised here.
  void remove(const completion_queue& queue) noexcept;
  /// Raises the event of `queue` at `when` at the latest.
  void schedule(const completion_queue& queue, time_ns when) noexcept;
  /// Returns when the first event is due; `never` if no event waits.
  [[nodiscard]] time_ns earliest() const noexcept {
    return earliest_.load(std::memory_order_seq_cst);
  }
  /// Raises the events that are due at `now`.
  void raise_due(time_ns now) noexcept;

 private:
  struct entry {
    completion_queue* queue = nullptr;
    time_ns when = never;
  };
  [[nodiscard]] entry* find(const completion_queue& queue) noexcept;
  void update_earliest() noexcept;

  spin_lock lock_;
  std::vector<entry> entries_;
  std::atomic<time_ns> earliest_{never};
};

}  // namespace verbena::softdev
