// SPDX-License-Identifier: MIT
// Two counters per lane, one of which is current. A reader may take the old one just when the
// current one is exchanged; therefore a writer first waits for what is left of the exchange before.
// All operations that order readers against writers are sequentially consistent.
#include "softdev/core/access_epoch.hpp"

#include <thread>

namespace verbena::softdev {

std::size_t access_epoch::lane_of_this_thread() noexcept {
  static std::atomic<std::size_t> threads{0};
  static thread_local const std::size_t lane = threads.fetch_add(1) % lanes_;
  return lane;
}

access_epoch::guard::guard(access_epoch& epoch) noexcept
    : count_(epoch.lanes_of_readers_[lane_of_this_thread()].inside[epoch.phase_.load() & 1U]) {
  count_.fetch_add(1);
}

void access_epoch::wait_for(std::uint32_t phase) noexcept {
  for (auto& lane : lanes_of_readers_)
    while (lane.inside[phase & 1U].load() != 0) std::this_thread::yield();
}

void access_epoch::synchronize() noexcept {
  const std::lock_guard lock(writers_);
  const std::uint32_t phase = phase_.load();
  wait_for(phase + 1);
  phase_.store(phase + 1);
  wait_for(phase);
}

}  // namespace verbena::softdev
