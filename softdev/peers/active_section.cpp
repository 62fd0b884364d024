// SPDX-License-Identifier: MIT
#include "softdev/peers/active_section.hpp"

#include "softdev/core/access_epoch.hpp"

namespace verbena::softdev {

void active_section::leave() noexcept {
  if (lanes_ != nullptr) lanes_->leave(lane_);
  lanes_ = nullptr;
}

void section_lanes::leave(std::uint32_t lane) noexcept {
  shared_u64& word = memory_.own().lanes[lane].word;
  word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  locks_[lane].unlock();
}

active_section section_lanes::enter() noexcept {
  // Each thread begins at a lane of its own, unless there are more threads than lanes. Lanes of
  // other threads last: taking one ends its ownership.
  const auto first = static_cast<std::uint32_t>(access_epoch::number_of_thread() % lane_count);
  for (const bool owned_too : {false, true}) {
    for (std::uint32_t step = 0; step < lane_count; ++step) {
      const std::uint32_t lane = (first + step) % lane_count;
      biased_lock& lock = locks_[lane];
      if (lock.owned_by_other() != owned_too || !lock.try_lock()) continue;
      pair_header& pair = memory_.own();
      const std::uint64_t bit = std::uint64_t{1} << lane;
      if ((pair.lanes_used.load(std::memory_order_relaxed) & bit) == 0)
        pair.lanes_used.fetch_or(bit, std::memory_order_seq_cst);
      shared_u64& word = pair.lanes[lane].word;
      word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
      return {*this, lane};
    }
  }
  return {};
}

}  // namespace verbena::softdev
