// SPDX-License-Identifier: MIT
// A lock for sections of nanoseconds that is mostly taken by one thread. That thread becomes its
// owner and takes it without a locked instruction; another thread that needs it first revokes this.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace verbena::softdev {

/// Satisfies Lockable; not recursive. A thread that waits long yields its processor. The first
/// thread that takes the lock many times in a row becomes its owner. Another thread revokes the
/// ownership, which takes a few microseconds. After twice as many times in a row the same thread
/// gets it back, or another one, until `most_owners` threads were owners. Without membarrier(2)
/// there is no owner. Threads: thread-safe.
class biased_lock {
 public:
  void lock() noexcept {
    if (!lock_as_owner()) lock_slowly();
  }
  [[nodiscard]] bool try_lock() noexcept { return lock_as_owner() || try_lock_slowly(); }
  /// Whether taking the lock would revoke an ownership.
  [[nodiscard]] bool owned_by_other() const noexcept {
    const std::uintptr_t owner = owner_.load(std::memory_order_relaxed);
    return owner != 0 && thread_of(owner) != this_thread();
  }
  void unlock() noexcept { inside_[holder_].store(false, std::memory_order_release); }

 private:
  using thread_mark = std::uintptr_t;
  /// Differs between threads that live. A thread that gets the mark of one that ended also gets its
  /// memory, and so what it wrote.
  [[nodiscard]] static thread_mark this_thread() noexcept {
    return reinterpret_cast<thread_mark>(__builtin_thread_pointer());
  }
  /// An owner is the mark of its thread and, in the low bits, which of `inside_` it uses.
  [[nodiscard]] static thread_mark thread_of(std::uintptr_t owner) noexcept {
    return owner & ~std::uintptr_t{most_owners - 1};
  }

  // A thread that revokes sets `owner_` to none and then runs a barrier in all threads. Either it
  // sees the owner's store after that, or the owner's second look finds that it is not the owner.
  [[nodiscard]] bool lock_as_owner() noexcept {
    const std::uintptr_t owner = owner_.load(std::memory_order_relaxed);
    if (thread_of(owner) != this_thread()) return false;
    std::atomic<bool>& inside = inside_[owner & (most_owners - 1)];
    if (inside.load(std::memory_order_relaxed)) return false;  // this thread holds it
    inside.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_relaxed) != owner) {
      inside.store(false, std::memory_order_release);
      return false;
    }
    holder_ = static_cast<std::uint8_t>(owner & (most_owners - 1));
    return true;
  }
  void lock_slowly() noexcept;
  [[nodiscard]] bool try_lock_slowly() noexcept;
  [[nodiscard]] bool take_from_owner(bool wait) noexcept;
  void count_for(thread_mark self) noexcept;

  static constexpr std::size_t most_owners = 4;
  static constexpr std::size_t others = most_owners;  ///< their place in `inside_`
  static constexpr std::uint32_t first_times = 64;
  static constexpr std::uint32_t most_times = 1U << 20;

  std::atomic<std::uintptr_t> owner_{0};
  /// Whether each owner is inside, and last, whether a thread is that is not the owner. Owners have
  /// a flag each: a former owner may be about to enter, or to find out that it must not, and stores
  /// both.
  std::array<std::atomic<bool>, most_owners + 1> inside_{};
  // Guarded by this lock:
  std::uint8_t holder_ = 0;  ///< the flag to clear in the end
  std::uint32_t times_ = 0;  ///< how often `last_` took it in a row
  std::uint32_t needed_times_ = first_times;
  std::uintptr_t last_owner_ = 0;
  thread_mark last_ = 0;
};

/// Takes a lock that is held for long only by somebody who should not be waited for.
[[nodiscard]] std::unique_lock<biased_lock> try_for_a_while(biased_lock& lock) noexcept;

}  // namespace verbena::softdev
