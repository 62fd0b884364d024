// SPDX-License-Identifier: MIT
// The numbers of an engine's queue pairs: random numbers in the range of its process. Numbers of
// destroyed queue pairs are in quarantine before they are reused, so that late packets find no
// queue pair.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "softdev/core/process_slot.hpp"
#include "softdev/core/quarantine.hpp"

namespace verbena::softdev {

/// Assigns queue pair numbers. Threads: one thread at a time, except for is_local() and limit().
class queue_pair_numbers {
 public:
  explicit queue_pair_numbers(std::uint32_t process_slot);

  /// Returns a number that is not in use, never 0, 1 or 0xffffff, which are reserved. Returns
  /// nullopt if limit() numbers are in use. Does not allocate.
  [[nodiscard]] std::optional<std::uint32_t> take() noexcept;
  /// Releases a number. It is in quarantine until the quarantine is full or free numbers run out.
  /// Does not allocate.
  void give_back(std::uint32_t number) noexcept;

  [[nodiscard]] std::uint32_t in_use() const noexcept { return in_use_; }
  /// Returns how many numbers have been taken so far.
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_; }
  /// Returns how many numbers can be in use at once.
  [[nodiscard]] std::uint32_t limit() const noexcept { return max_queue_pairs_of(slot_); }
  /// Returns whether a number is in the range of this process.
  [[nodiscard]] bool is_local(std::uint32_t number) const noexcept {
    return number - first_ < count_;
  }

 private:
  void release(std::uint32_t index) noexcept;

  const std::uint32_t slot_;
  const std::uint32_t first_;
  const std::uint32_t count_;
  std::uint32_t in_use_ = 0;
  std::uint32_t taken_ = 0;
  quarantine resting_;                         ///< indexes
  std::unique_ptr<std::uint64_t[]> reserved_;  ///< bit n: the index n is in use or in quarantine
};

}  // namespace verbena::softdev
