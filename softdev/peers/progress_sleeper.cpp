// SPDX-License-Identifier: MIT
#include "softdev/peers/progress_sleeper.hpp"

namespace verbena::softdev {

// The word `sleeping` is odd while the thread sleeps, and changes with each sleep.

void progress_sleeper::announce_sleep_unseen() noexcept {
  shared_u32& word = shown_.sleeping;
  word.store(word.load(std::memory_order_relaxed) | 1U, std::memory_order_seq_cst);
}

bool progress_sleeper::announce_sleep(time_point now) {
  announce_sleep_unseen();
  if (!receiver_.anything_published(now)) return true;
  announce_awake();
  return false;
}

void progress_sleeper::announce_awake() noexcept {
  shared_u32& word = shown_.sleeping;
  word.store((word.load(std::memory_order_relaxed) | 1U) + 1, std::memory_order_seq_cst);
}

}  // namespace verbena::softdev
