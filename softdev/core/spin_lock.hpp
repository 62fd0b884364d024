// SPDX-License-Identifier: MIT
// A lock for critical sections of nanoseconds: it is taken by one atomic exchange and released by a
// plain store.
#pragma once

#include <atomic>

namespace verbena::softdev {

/// Protects short critical sections. Satisfies Lockable. A thread that waits for long yields its
/// processor. Threads: thread-safe.
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
