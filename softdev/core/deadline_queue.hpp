// SPDX-License-Identifier: MIT
// The times at which queue pairs must run even without an event: retries and RNR timers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// Holds at most one time per index, the earliest. Scheduling an index and taking it when it is due
/// cost O(log n); waiting costs nothing. Threads: thread-safe. Allocates in reserve() only.
class deadline_queue {
 public:
  /// Makes a queue for indices below `limit`.
  explicit deadline_queue(std::uint32_t limit) : scheduled_(limit, none_) {}

  /// Makes room for `indices` different indices at a time. Call it before they are scheduled; one
  /// thread at a time.
  void reserve(std::size_t indices);
  /// Schedules `index` at `when`, unless it is scheduled at an earlier time. Returns whether `when`
  /// is now the earliest of all times. Precondition: `when` is not `never`.
  bool schedule(std::uint32_t index, time_ns when) noexcept;
  /// Removes the time of `index`.
  void cancel(std::uint32_t index) noexcept;
  /// Returns the earliest time; `never` if nothing is scheduled. One load.
  [[nodiscard]] time_ns earliest() const noexcept {
    return earliest_.load(std::memory_order_seq_cst);
  }
  /// Moves indices that are due at `now` to `due`, earliest first, and returns their number.
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
  std::vector<entry> heap_;         ///< earliest first; some are outdated by an earlier time
  std::vector<time_ns> scheduled_;  ///< by index
  std::atomic<time_ns> earliest_{never};
};

}  // namespace verbena::softdev
