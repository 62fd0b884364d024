// SPDX-License-Identifier: MIT
// The published sleep of this process's progress thread. After sending, peers signal the thread if
// it sleeps (docs/decisions/0017-wake-ups-between-processes.md).
#pragma once

#include <chrono>
#include <optional>

#include "softdev/ipc/wake_sockets.hpp"
#include "softdev/peers/ring_receiver.hpp"
#include "softdev/shm/segment_layout.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, except for wakes().
class progress_sleeper {
 public:
  using time_point = ring_receiver::time_point;
  /// All arguments must outlive this object.
  progress_sleeper(public_header& shown, wake_receiver& wakes, ring_receiver& receiver) noexcept
      : shown_(shown), wakes_(wakes), receiver_(receiver) {}
  progress_sleeper(const progress_sleeper&) = delete;
  progress_sleeper& operator=(const progress_sleeper&) = delete;

  /// The receiver that peers signal while the thread sleeps.
  [[nodiscard]] wake_receiver& wakes() noexcept { return wakes_; }
  /// Publishes that the thread sleeps. If there is something to receive, revokes this and returns
  /// false: do not sleep. Otherwise sleep until next_look() at most. The cost does not depend on
  /// the number of peers, except for a look at all peers every 10 ms at most.
  [[nodiscard]] bool announce_sleep(time_point now);
  /// Returns when to call announce_sleep() again, because some peers were not checked.
  [[nodiscard]] std::optional<time_point> next_look() const noexcept {
    return receiver_.next_look();
  }
  /// Publishes that the thread sleeps without checking the rings. The caller checks them
  /// afterwards.
  void announce_sleep_unseen() noexcept;
  /// Publishes that the thread is awake. Signals that arrived in the meantime stay in wakes().
  void announce_awake() noexcept;

 private:
  public_header& shown_;
  wake_receiver& wakes_;
  ring_receiver& receiver_;
};

}  // namespace verbena::softdev
