// SPDX-License-Identifier: MIT
// The thread of the device in a process. It does the work that no call of the program does: retries
// that are due, and requests of peers while the program computes. While the program polls, the
// thread parks: it waits and leaves the work to the program.
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"
#include "softdev/ipc/wake_sockets.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// The work of the thread. Threads: tend(), run(), next_deadline() and sleep_on() are thread-safe;
/// the other functions are thread-bound: only the thread calls them.
class progress_work {
 public:
  /// Pairs with peers and detects their exit.
  virtual void tend() noexcept = 0;
  /// Does the work that is due. While the program polls, the thread does not call it, because the
  /// polls do this work.
  virtual void run() noexcept = 0;
  /// Returns when to run again at the latest, on CLOCK_MONOTONIC; `never` if nothing is pending.
  [[nodiscard]] virtual time_ns next_deadline() const noexcept = 0;
  /// Prepares a wait. Returns false if there is work to do. awake() follows in both cases.
  [[nodiscard]] virtual bool fall_asleep() noexcept = 0;
  /// Makes peers wake the thread, which waits already, when they send something. The caller checks
  /// for records that they sent before.
  virtual void sleep_on() noexcept = 0;
  /// Ends a wait. Called after each fall_asleep(), and after a wait during which sleep_on() was
  /// called.
  virtual void awake() noexcept = 0;
  /// Handles a readable `watch_fd`, or the time of next_watch().
  virtual void watched() noexcept = 0;
  /// Returns when to call watched() at the latest; `never` to wait for the descriptor. Not later
  /// than next_deadline().
  [[nodiscard]] virtual time_ns next_watch() const noexcept { return never; }

 protected:
  ~progress_work() = default;
};

/// The descriptors and signals for which the thread waits.
struct progress_wakes {
  int watch_fd = -1;  ///< readable when watched() must be called; -1 for none
  int tend_fd = -1;   ///< readable when tend() has work; -1 for none
  int run_fd = -1;    ///< readable when run() has work; -1 for none
  /// Signaled when run() has work. The thread waits for it.
  wake_receiver* wakes = nullptr;
};

/// Threads: thread-safe. Its thread never ends, so an object whose thread was started lives as long
/// as the process.
class progress_thread {
 public:
  /// `work` and the objects in `wakes` must outlive the thread.
  progress_thread(progress_work& work, const progress_wakes& wakes) noexcept
      : work_(work), wakes_(wakes) {}
  progress_thread(const progress_thread&) = delete;
  progress_thread& operator=(const progress_thread&) = delete;

  /// Starts the thread unless it runs. Returns 0, or the errno of epoll_ctl(2) or
  /// pthread_create(3). Allocates.
  [[nodiscard]] int start() noexcept;
  [[nodiscard]] bool started() const noexcept { return started_.load(std::memory_order_acquire); }

  /// Wakes the thread: run() has work, or an earlier deadline. No system call unless it sleeps.
  void wake() noexcept;

  /// Notes that the program polls and so does the work itself: the thread parks for a while.
  /// Usually costs one load.
  void note_polling() noexcept {
    if (!polled_.load(std::memory_order_relaxed)) polled_.store(true, std::memory_order_relaxed);
  }
  /// Returns whether the thread is parked. If so, it calls run() after the program has ceased to
  /// poll: at most 4 ms, and the delay of the scheduler, after the last call of note_polling().
  [[nodiscard]] bool parked() const noexcept {
    return parked_.load(std::memory_order_seq_cst) &&
           attentive_.load(std::memory_order_relaxed) == 0;
  }
  /// Count the reasons not to park although the program polls: armed completion queues. Call
  /// end_parking() after expect_sleep(), without the lock of a queue.
  void expect_sleep() noexcept { attentive_.fetch_add(1, std::memory_order_seq_cst); }
  void end_parking() noexcept;
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
  std::atomic<bool> parked_{false};               ///< parked because the program polls
  std::atomic<bool> announced_{false};            ///< parked, and peers wake it
  std::atomic<time_ns> parked_until_{0};
  std::atomic<bool> called_{false};  ///< `wake` was called since the last run
  std::atomic<std::int32_t> attentive_{0};
};

}  // namespace verbena::softdev
