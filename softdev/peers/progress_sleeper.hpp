// SPDX-License-Identifier: MIT
// The sleep of this process's progress thread, which peers see: they signal a thread that sleeps
// when they have sent something (docs/decisions/0017-wake-ups-between-processes.md).
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
  /// All outlive it.
  progress_sleeper(public_header& shown, wake_receiver& wakes, ring_receiver& receiver) noexcept
      : shown_(shown), wakes_(wakes), receiver_(receiver) {}
  progress_sleeper(const progress_sleeper&) = delete;
  progress_sleeper& operator=(const progress_sleeper&) = delete;

  /// What peers signal while the thread sleeps.
  [[nodiscard]] wake_receiver& wakes() noexcept { return wakes_; }
  /// Publishes that the thread sleeps. False when there is something to receive: then do not sleep,
  /// and publish nothing. Otherwise sleep until next_look() at most. Costs the same with many
  /// peers, except every 10 ms at most.
  [[nodiscard]] bool announce_sleep(time_point now);
  /// When to call announce_sleep() again, because some peers were not looked at.
  [[nodiscard]] std::optional<time_point> next_look() const noexcept {
    return receiver_.next_look();
  }
  /// Publishes that the thread sleeps, without a look at what there is to receive. The caller looks
  /// afterwards.
  void announce_sleep_unseen() noexcept;
  /// Publishes that it is awake. A signal that was given meanwhile stays in wakes().
  void announce_awake() noexcept;

 private:
  public_header& shown_;
  wake_receiver& wakes_;
  ring_receiver& receiver_;
};

}  // namespace verbena::softdev
