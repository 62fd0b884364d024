// SPDX-License-Identifier: MIT
// The receive right: a mutex that records which thread holds it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace verbena::softdev::wire {

/// Satisfies Lockable. Threads: thread-safe.
class receive_right {
 public:
  void lock() noexcept {
    mutex_.lock();
    holder_.store(::pthread_self(), std::memory_order_relaxed);
  }
  [[nodiscard]] bool try_lock() noexcept {
    if (!mutex_.try_lock()) return false;
    holder_.store(::pthread_self(), std::memory_order_relaxed);
    return true;
  }
  void unlock() noexcept {
    holder_.store(pthread_t{}, std::memory_order_relaxed);
    mutex_.unlock();
  }
  /// Returns whether the calling thread holds the right.
  [[nodiscard]] bool is_mine() const noexcept {
    return ::pthread_equal(holder_.load(std::memory_order_relaxed), ::pthread_self()) != 0;
  }

  // For fork handlers; one fork at a time.
  /// Acquires the right unless the calling thread holds it already: a signal handler can fork.
  void hold_for_fork() noexcept {
    held_for_fork_ = !is_mine();
    if (held_for_fork_) lock();
  }
  /// Returns whether hold_for_fork() acquired the right.
  [[nodiscard]] bool held_for_fork() const noexcept { return held_for_fork_; }
  void release_after_fork() noexcept {
    if (std::exchange(held_for_fork_, false)) unlock();
  }

 private:
  std::mutex mutex_;
  std::atomic<pthread_t> holder_{};
  bool held_for_fork_ = false;
};

}  // namespace verbena::softdev::wire
