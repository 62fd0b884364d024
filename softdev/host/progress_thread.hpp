// SPDX-License-Identifier: MIT
// The one thread of the device in a process. It runs what no call of the program runs: retries
// whose time has come, and the peers' requests while the program computes. While the program polls,
// it keeps out of the way.
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"
#include "softdev/ipc/wake_sockets.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// What the thread drives. Threads: thread-bound, called on that thread only.
class progress_work {
 public:
  /// Does what nobody else does: pairing with peers, noticing their death.
  virtual void tend() noexcept = 0;
  /// Does what is due; not while the program polls, because polling does it.
  virtual void run() noexcept = 0;
  /// When to run again at the latest, on CLOCK_MONOTONIC; `never` if nothing is pending.
  [[nodiscard]] virtual time_ns next_deadline() const noexcept = 0;
  /// About to wait: false when there is something to do after all. `awake` follows in both cases.
  [[nodiscard]] virtual bool fall_asleep() noexcept = 0;
  /// Peers are to wake the thread, which waits already, when they send something. The caller looks
  /// for what they sent before.
  virtual void sleep_on() noexcept = 0;
  /// After each `fall_asleep`, and after each wait that `sleep_on` began.
  virtual void awake() noexcept = 0;
  /// `watch_fd` is readable.
  virtual void watched() noexcept = 0;

 protected:
  ~progress_work() = default;
};

/// What the thread waits for.
struct progress_wakes {
  int watch_fd = -1;  ///< readable when `watched` is to be called; -1 for none
  int tend_fd = -1;   ///< readable when there is something to tend; -1 for none
  int run_fd = -1;    ///< readable when there is something to run; -1 for none
  /// Signaled when there is something to run. The thread waits on it.
  wake_receiver* wakes = nullptr;
};

/// Threads: thread-safe. Its thread never ends, so an object whose thread was started lives as long
/// as the process.
class progress_thread {
 public:
  /// `work` and what is in `wakes` outlive the thread.
  progress_thread(progress_work& work, const progress_wakes& wakes) noexcept
      : work_(work), wakes_(wakes) {}
  progress_thread(const progress_thread&) = delete;
  progress_thread& operator=(const progress_thread&) = delete;

  /// Starts the thread unless it runs. 0, or the errno of epoll_ctl(2) or pthread_create(3).
  /// Allocates.
  [[nodiscard]] int start() noexcept;
  [[nodiscard]] bool started() const noexcept { return started_.load(std::memory_order_acquire); }

  /// There is something to run, or an earlier time to run at. No system call unless it sleeps.
  void wake() noexcept;

  /// The program runs the work itself by polling: the thread stays away for a while. Two loads at
  /// most, usually.
  void note_polling() noexcept {
    if (!polled_.load(std::memory_order_relaxed)) polled_.store(true, std::memory_order_relaxed);
  }
  /// Counts reasons not to stay away although the program polls: armed completion queues.
  void expect_sleep() noexcept;
  void expect_no_sleep() noexcept { attentive_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  [[nodiscard]] int watch() noexcept;
  static void* enter(void* self) noexcept;
  void loop() noexcept;
  void wait(time_ns until) noexcept;
  void park() noexcept;
  [[nodiscard]] bool sleep_parked() noexcept;
  void wait_for(time_ns duration) noexcept;

  progress_work& work_;
  const progress_wakes wakes_;
  std::atomic<bool> starting_{false};
  std::atomic<bool> started_{false};
  alignas(64) std::atomic<bool> polled_{false};
  alignas(64) std::atomic<bool> waiting_{false};  ///< in a wait that `wake` must end
  spin_lock park_lock_;                           ///< guards the next two
  std::atomic<bool> parked_{false};               ///< away from a program that polls
  std::atomic<bool> announced_{false};            ///< parked, and peers are to wake it
  std::atomic<time_ns> parked_until_{0};
  std::atomic<bool> called_{false};  ///< `wake` was called since the last run
  std::atomic<std::int32_t> attentive_{0};
};

}  // namespace verbena::softdev
