// SPDX-License-Identifier: MIT
#include "softdev/peers/progress_sleeper.hpp"

namespace verbena::softdev {

// The word `sleeping` is odd while the thread sleeps, and changes with each sleep.

namespace {
constexpr std::uint32_t flags_of_sleep = sleep_bits::one_sleep - 1;
// The longest time for which a record waits until the program receives it, if peers do not wake the
// thread for it.
constexpr std::chrono::milliseconds check_interval{20};
}  // namespace

sleep_kind progress_sleeper::next_sleep(time_point now) noexcept {
  if (checks_until_.load(std::memory_order_relaxed) <= now.time_since_epoch().count()) {
    const bool taken = signals_taken_.load(std::memory_order_relaxed) &&
                       signals_taken_.exchange(false, std::memory_order_relaxed);
    checks_until_.store(taken ? (now + check_interval).time_since_epoch().count() : no_check,
                        std::memory_order_relaxed);
  }
  check_at_.store(checks_until_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return last_sleep();
}

void progress_sleeper::announce_sleep_unseen(sleep_kind kind) noexcept {
  shared_u32& word = shown_.sleeping;
  const std::uint32_t checks = kind == sleep_kind::with_check ? sleep_bits::checks : 0;
  word.store((word.load(std::memory_order_relaxed) & ~flags_of_sleep) | sleep_bits::asleep | checks,
             std::memory_order_seq_cst);
}

bool progress_sleeper::announce_sleep(time_point now, sleep_kind kind) {
  announce_sleep_unseen(kind);
  if (!receiver_.anything_published(now)) return true;
  announce_awake();
  return false;
}

void progress_sleeper::announce_awake() noexcept {
  check_at_.store(no_check, std::memory_order_relaxed);
  shared_u32& word = shown_.sleeping;
  word.store((word.load(std::memory_order_relaxed) | flags_of_sleep) + 1,
             std::memory_order_seq_cst);
}

}  // namespace verbena::softdev
