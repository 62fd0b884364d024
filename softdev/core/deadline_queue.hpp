// SPDX-License-Identifier: MIT
// The times at which queue pairs have to run without another cause: retries and RNR timers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// At most one time per index, the earliest. An index costs O(log n) when it is scheduled and when
/// it is due, nothing in between. Threads: thread-safe. Allocates in reserve() only.
class deadline_queue {
 public:
  /// For indices below `limit`.
  explicit deadline_queue(std::uint32_t limit) : scheduled_(limit, none_) {}

  /// Makes room for `indices` different indices at a time. Call it before they are scheduled; one
  /// thread at a time.
  void reserve(std::size_t indices);
  /// Schedules `index` at `when`, unless it is scheduled at an earlier time. Returns whether it is
  /// the earliest of all now. Precondition: `when` is not `never`.
  bool schedule(std::uint32_t index, time_ns when) noexcept;
  /// Forgets the time of `index`.
  void cancel(std::uint32_t index) noexcept;
  /// The earliest time; `never` if nothing is scheduled. One load.
  [[nodiscard]] time_ns earliest() const noexcept {
    return earliest_.load(std::memory_order_seq_cst);
  }
  /// Removes indices that are due at `now`, earliest first, and returns how many it wrote to `due`.
  [[nodiscard]] std::size_t take_due(time_ns now, std::span<std::uint32_t> due) noexcept;

 private:
  struct entry {
    time_ns when;
    std::uint32_t index;
  };
  static constexpr time_ns none_ = never;
  static bool is_later(const entry& a, const entry& b) noexcept { return a.when > b.when; }
  void drop_outdated() noexcept;
  void rebuild() noexcept;

  std::size_t capacity_ = 0;  ///< of the heap, for reserve()
  spin_lock lock_;
  std::vector<entry> heap_;         ///< the earliest first; some are outdated by an earlier one
  std::vector<time_ns> scheduled_;  ///< by index
  std::atomic<time_ns> earliest_{never};
};

}  // namespace verbena::softdev
