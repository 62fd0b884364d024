// SPDX-License-Identifier: MIT
// Active sections: while a thread is in one, it may access the memory and the public words of a
// peer, and the peer's fence (section_fence.hpp) waits for it.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "softdev/core/access_epoch.hpp"
#include "softdev/core/biased_lock.hpp"
#include "softdev/peers/pair_memory.hpp"
#include "softdev/shm/segment_layout.hpp"

namespace verbena::softdev {

class section_lanes;

/// Permits this thread to access a peer's memory and public words. The peer's fence waits until the
/// section ends. Keep it short: at most one posted list. Movable. Threads: thread-bound.
class active_section {
 public:
  active_section() noexcept = default;
  active_section(section_lanes& entered, std::uint32_t lane) noexcept
      : lanes_(&entered), lane_(lane) {}
  active_section(active_section&& other) noexcept
      : lanes_(std::exchange(other.lanes_, nullptr)), lane_(other.lane_) {}
  active_section& operator=(active_section&&) = delete;
  ~active_section() { leave(); }
  /// Returns false if all lanes are in use: send the request through the ring, or try again.
  [[nodiscard]] explicit operator bool() const noexcept { return lanes_ != nullptr; }
  void leave() noexcept;

 private:
  section_lanes* lanes_ = nullptr;
  std::uint32_t lane_ = 0;
};

/// The lanes of this process towards a peer. The word of a lane is odd while a thread is in an
/// active section of the lane. Threads: thread-safe.
class section_lanes {
 public:
  explicit section_lanes(pair_memory& memory) noexcept : memory_(memory) {}
  section_lanes(const section_lanes&) = delete;
  section_lanes& operator=(const section_lanes&) = delete;

  [[nodiscard]] active_section enter() noexcept {
    const std::uint32_t own = own_lane();
    if (locks_[own].owned_by_other() || !locks_[own].try_lock()) return enter_another(own);
    return enter_locked(own);
  }
  /// Ends an active section; active_section::leave() calls it.
  void leave(std::uint32_t lane) noexcept;

 private:
  /// Returns the lane that this thread tries first. Threads share it only if there are more threads
  /// than lanes.
  [[nodiscard]] static std::uint32_t own_lane() noexcept {
    return static_cast<std::uint32_t>(access_epoch::number_of_thread() % lane_count);
  }
  [[nodiscard]] active_section enter_locked(std::uint32_t lane) noexcept {
    pair_header& pair = memory_.own();
    const std::uint64_t bit = std::uint64_t{1} << lane;
    if ((pair.lanes_used.load(std::memory_order_relaxed) & bit) == 0)
      pair.lanes_used.fetch_or(bit, std::memory_order_seq_cst);
    shared_u64& word = pair.lanes[lane].word;
    word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
    return {*this, lane};
  }
  [[nodiscard]] active_section enter_another(std::uint32_t first) noexcept;

  pair_memory& memory_;
  /// Held while a thread is in an active section of that lane.
  std::array<biased_lock, lane_count> locks_;
};

}  // namespace verbena::softdev
