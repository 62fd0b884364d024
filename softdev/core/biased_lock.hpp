// SPDX-License-Identifier: MIT
// A lock for sections of nanoseconds that is mostly taken by one thread. That thread becomes its
// owner and takes it without a locked instruction; another thread that needs it first revokes this.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::softdev {

/// Satisfies Lockable; not recursive. A thread that waits long yields its processor. The first
/// thread that takes the lock many times in a row becomes its owner. Another thread revokes the
/// ownership, which takes a few microseconds; the same thread can get it back, no other one, after
/// twice as many times. Without membarrier(2) there is no owner. Threads: thread-safe.
class biased_lock {
 public:
  void lock() noexcept {
    if (!lock_as_owner()) lock_slowly();
  }
  [[nodiscard]] bool try_lock() noexcept { return lock_as_owner() || try_lock_slowly(); }
  /// Whether taking the lock would revoke an ownership.
  [[nodiscard]] bool owned_by_other() const noexcept {
    const thread_mark owner = owner_.load(std::memory_order_relaxed);
    return owner != nullptr && owner != this_thread();
  }
  void unlock() noexcept {
    if (by_owner_) {
      owner_inside_.store(false, std::memory_order_release);
    } else {
      held_.store(false, std::memory_order_release);
    }
  }

 private:
  using thread_mark = const void*;
  /// Differs between threads that live. A thread that gets the mark of one that ended also gets its
  /// memory, and so what it wrote.
  [[nodiscard]] static thread_mark this_thread() noexcept { return __builtin_thread_pointer(); }

  // A thread that revokes sets `owner_` to none and then runs a barrier in all threads. Either it
  // sees the owner's store after that, or the owner's second look finds that it is not the owner.
  [[nodiscard]] bool lock_as_owner() noexcept {
    const thread_mark self = this_thread();
    if (owner_.load(std::memory_order_relaxed) != self) return false;
    if (owner_inside_.load(std::memory_order_relaxed)) return false;  // this thread holds it
    owner_inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_relaxed) != self) {
      owner_inside_.store(false, std::memory_order_release);
      return false;
    }
    by_owner_ = true;
    return true;
  }
  void lock_slowly() noexcept;
  [[nodiscard]] bool try_lock_slowly() noexcept;
  [[nodiscard]] bool take_from_owner(bool wait) noexcept;
  void count_for(thread_mark self) noexcept;

  static constexpr std::uint32_t first_times = 64;
  static constexpr std::uint32_t most_times = 1U << 20;

  std::atomic<thread_mark> owner_{nullptr};
  std::atomic<bool> owner_inside_{false};
  std::atomic<bool> held_{false};  ///< by a thread that is not the owner
  // Guarded by this lock:
  bool by_owner_ = false;
  /// The only thread that was ever owner. A former owner may be about to enter or to find out that
  /// it must not, which another owner could not tell from its own section.
  thread_mark only_owner_ = nullptr;
  std::uint32_t times_ = 0;  ///< how often `last_` took it in a row
  std::uint32_t needed_times_ = first_times;
  thread_mark last_ = nullptr;
};

}  // namespace verbena::softdev
