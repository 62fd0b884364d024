// SPDX-License-Identifier: MIT
// A lock for sections of nanoseconds: one atomic exchange to take it, a plain store to give it
// back.
#pragma once

#include <atomic>

namespace verbena::softdev {

/// Satisfies Lockable. A thread that waits long yields its processor. Threads: thread-safe.
class spin_lock {
 public:
  void lock() noexcept {
    if (!try_lock()) lock_slowly();
  }
  [[nodiscard]] bool try_lock() noexcept {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  void lock_slowly() noexcept;

  std::atomic<bool> held_{false};
};

}  // namespace verbena::softdev
