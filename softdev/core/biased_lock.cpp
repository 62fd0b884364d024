// SPDX-License-Identifier: MIT
#include "softdev/core/biased_lock.hpp"

#include <algorithm>
#include <span>

#include "softdev/core/process_barrier.hpp"
#include "softdev/core/spin_wait.hpp"
#include "verbena/base/sanitizers.hpp"

namespace verbena::softdev {
namespace {

// ThreadSanitizer does not support barriers that another thread executes.
#if defined(VERBENA_THREAD_SANITIZER)
bool can_have_owner() noexcept { return false; }
#else
bool can_have_owner() noexcept { return has_process_barrier(); }
#endif

}  // namespace

void biased_lock::lock_slowly() noexcept {
  spin_wait wait;
  std::atomic<bool>& held = inside_[others];
  while (held.load(std::memory_order_relaxed) || held.exchange(true, std::memory_order_acquire)) {
    wait.once();
  }
  static_cast<void>(take_from_owner(true));
  count_for(this_thread());
}

bool biased_lock::try_lock_slowly() noexcept {
  if (thread_of(owner_.load(std::memory_order_relaxed)) == this_thread())
    return false;  // this thread holds the lock
  std::atomic<bool>& held = inside_[others];
  if (held.load(std::memory_order_relaxed) || held.exchange(true, std::memory_order_acquire)) {
    return false;
  }
  if (!take_from_owner(false)) {
    held.store(false, std::memory_order_release);
    return false;
  }
  count_for(this_thread());
  return true;
}

/// Revokes the ownership. The caller has set the flag of the other threads. Returns whether all
/// owners have left their sections; if `wait` is set, waits until they have.
bool biased_lock::take_from_owner(bool wait) noexcept {
  if (owner_.load(std::memory_order_relaxed) != 0) {
    owner_.store(0, std::memory_order_relaxed);
    run_process_barrier();
  }
  spin_wait pause;
  for (auto& inside : std::span(inside_).first<most_owners>()) {
    while (inside.load(std::memory_order_acquire)) {
      if (!wait) return false;
      pause.once();
    }
  }
  return true;
}

/// Counts the section that begins. The caller has set the flag of the other threads, and no other
/// thread is inside.
void biased_lock::count_for(thread_mark self) noexcept {
  holder_ = others;
  if (last_ != self) {
    last_ = self;
    times_ = 0;
  }
  if (++times_ < needed_times_ || !can_have_owner()) return;
  if (last_owner_ == 0) {
    last_owner_ = self;
  } else if (thread_of(last_owner_) != self) {
    const std::uintptr_t next = (last_owner_ & (most_owners - 1)) + 1;
    if (next == most_owners) return;
    last_owner_ = self | next;
  }
  needed_times_ = std::min(needed_times_ * 2, most_times);
  // The section in which the thread becomes the owner is already one of the owner: otherwise,
  // lock_as_owner() would permit the thread to enter a second time. A thread that sees the flag of
  // the other threads cleared also sees the flag of the owner, and waits for it.
  holder_ = static_cast<std::uint8_t>(last_owner_ & (most_owners - 1));
  inside_[holder_].store(true, std::memory_order_relaxed);
  owner_.store(last_owner_, std::memory_order_relaxed);
  inside_[others].store(false, std::memory_order_release);
}

std::unique_lock<biased_lock> try_for_a_while(biased_lock& lock) noexcept {
  for (int attempt = 0; attempt < 200; ++attempt)
    if (lock.try_lock()) return {lock, std::adopt_lock};
  return {};
}

}  // namespace verbena::softdev
