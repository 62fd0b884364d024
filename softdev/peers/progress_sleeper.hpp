// SPDX-License-Identifier: MIT
// The published sleep of this process's progress thread. After sending, peers signal the thread if
// it sleeps (docs/decisions/0017-wake-ups-between-processes.md).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "softdev/ipc/wake_sockets.hpp"
#include "softdev/peers/ring_receiver.hpp"
#include "softdev/shm/segment_layout.hpp"

namespace verbena::softdev {

/// When the thread receives records for which peers do not signal it.
enum class sleep_kind : std::uint8_t {
  until_signal,  ///< peers signal it for each record
  with_check,    ///< the sleep is short; the thread then receives all records
};

/// Threads: one thread at a time, except for wakes() and where a function states otherwise.
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
  [[nodiscard]] bool announce_sleep(time_point now, sleep_kind kind = sleep_kind::until_signal);
  /// Returns when to call announce_sleep() again, because some peers were not checked.
  [[nodiscard]] std::optional<time_point> next_look() const noexcept {
    return receiver_.next_look();
  }
  /// Publishes that the thread sleeps without checking the rings. The caller checks them
  /// afterwards.
  void announce_sleep_unseen(sleep_kind kind = sleep_kind::until_signal) noexcept;
  /// Notes that a thread of the program has taken a signal of a completion channel and will receive
  /// the records of peers. Thread-safe; usually costs one load.
  void note_signal_taken() noexcept {
    if (!signals_taken_.load(std::memory_order_relaxed))
      signals_taken_.store(true, std::memory_order_relaxed);
  }
  /// Returns the kind of a sleep that begins. While threads of the program take signals, they
  /// receive the records of peers: peers need not wake this thread, too. It then only checks that
  /// they do.
  [[nodiscard]] sleep_kind next_sleep(time_point now) noexcept;
  /// Returns the kind of the last sleep, for a wait that is shorter.
  [[nodiscard]] sleep_kind last_sleep() const noexcept {
    return checks_until_.load(std::memory_order_relaxed) != no_check ? sleep_kind::with_check
                                                                     : sleep_kind::until_signal;
  }
  /// Returns when the present sleep must end for a check. Thread-safe.
  [[nodiscard]] std::optional<time_point> next_check() const noexcept {
    const auto at = check_at_.load(std::memory_order_relaxed);
    return at != no_check ? std::optional(time_point(time_point::duration(at))) : std::nullopt;
  }
  /// Publishes that the thread is awake. Signals that arrived in the meantime stay in wakes().
  void announce_awake() noexcept;

 private:
  using ticks = time_point::rep;
  static constexpr ticks no_check = 0;

  public_header& shown_;
  wake_receiver& wakes_;
  ring_receiver& receiver_;
  std::atomic<bool> signals_taken_{false};
  /// Until then, sleeps of the thread end by a check; `no_check` if they need not.
  std::atomic<ticks> checks_until_{no_check};
  std::atomic<ticks> check_at_{no_check};  ///< the end of the present sleep
};

}  // namespace verbena::softdev
