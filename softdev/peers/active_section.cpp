// SPDX-License-Identifier: MIT
#include "softdev/peers/active_section.hpp"

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

/// Tries lanes that other threads own last: taking such a lane revokes the ownership.
active_section section_lanes::enter_another(std::uint32_t first) noexcept {
  for (const bool owned_too : {false, true}) {
    for (std::uint32_t step = 0; step < lane_count; ++step) {
      const std::uint32_t lane = (first + step) % lane_count;
      biased_lock& lock = locks_[lane];
      if (lock.owned_by_other() == owned_too && lock.try_lock()) return enter_locked(lane);
    }
  }
  return {};
}

}  // namespace verbena::softdev
