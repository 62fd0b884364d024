// SPDX-License-Identifier: MIT
// A lock for critical sections of nanoseconds that one thread takes most of the time. That thread
// becomes its owner and takes it without a locked instruction. Another thread that needs the lock
// first revokes the ownership.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace verbena::softdev {

/// Protects short critical sections. Satisfies Lockable; not recursive. A thread that waits for
/// long yields its processor. A thread that takes the lock many times in a row becomes its owner.
/// Another thread that takes the lock revokes the ownership, which takes a few microseconds. After
/// twice as many times in a row, the same or another thread becomes the owner. After `most_owners`
/// owners, only the last one can become the owner again. Without membarrier(2), the lock has no
/// owner. Threads: thread-safe.
class biased_lock {
 public:
  void lock() noexcept {
    if (!lock_as_owner()) lock_slowly();
  }
  [[nodiscard]] bool try_lock() noexcept { return lock_as_owner() || try_lock_slowly(); }
  /// Returns whether taking the lock would revoke the ownership of another thread.
  [[nodiscard]] bool owned_by_other() const noexcept {
    const std::uintptr_t owner = owner_.load(std::memory_order_relaxed);
    return owner != 0 && thread_of(owner) != this_thread();
  }
  void unlock() noexcept { inside_[holder_].store(false, std::memory_order_release); }

 private:
  using thread_mark = std::uintptr_t;
  /// Returns a mark that differs between living threads. A thread with the mark of an ended thread
  /// also has the memory at its thread pointer, and therefore sees that thread's stores.
  [[nodiscard]] static thread_mark this_thread() noexcept {
    return reinterpret_cast<thread_mark>(__builtin_thread_pointer());
  }
  /// Returns the mark in an owner word. The low bits of the word are the owner's index in
  /// `inside_`.
  [[nodiscard]] static thread_mark thread_of(std::uintptr_t owner) noexcept {
    return owner & ~std::uintptr_t{most_owners - 1};
  }

  // A thread that revokes the ownership sets `owner_` to 0, then runs a barrier in all threads.
  // After that, either it sees the owner's flag, or the owner's second load finds that it is not
  // the owner.
  [[nodiscard]] bool lock_as_owner() noexcept {
    const std::uintptr_t owner = owner_.load(std::memory_order_relaxed);
    if (thread_of(owner) != this_thread()) return false;
    std::atomic<bool>& inside = inside_[owner & (most_owners - 1)];
    if (inside.load(std::memory_order_relaxed)) return false;  // this thread holds the lock
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
  static constexpr std::size_t others = most_owners;  ///< index of their flag in `inside_`
  static constexpr std::uint32_t first_times = 64;
  static constexpr std::uint32_t most_times = 1U << 20;

  std::atomic<std::uintptr_t> owner_{0};
  /// Whether each owner is inside and, in the last flag, whether a thread is inside that is not the
  /// owner. Each owner has its own flag: a former owner may still set its flag, and clear it when
  /// it finds that it is not the owner.
  std::array<std::atomic<bool>, most_owners + 1> inside_{};
  // Guarded by this lock:
  std::uint8_t holder_ = 0;  ///< the flag that unlock() clears
  std::uint32_t times_ = 0;  ///< how often `last_` took the lock in a row
  std::uint32_t needed_times_ = first_times;
  std::uintptr_t last_owner_ = 0;
  thread_mark last_ = 0;
};

/// Tries to take a lock, a limited number of times. Returns an empty lock if it fails. For a lock
/// that is held for long only by threads that must not be waited for.
[[nodiscard]] std::unique_lock<biased_lock> try_for_a_while(biased_lock& lock) noexcept;

}  // namespace verbena::softdev
