// SPDX-License-Identifier: MIT
// The numbers of an engine's queue pairs: random numbers of its process's range. Numbers of
// destroyed queue pairs rest before they are used again, so that late packets meet nobody.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "softdev/core/process_slot.hpp"
#include "softdev/core/quarantine.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, except for is_local() and limit().
class queue_pair_numbers {
 public:
  explicit queue_pair_numbers(std::uint32_t process_slot);

  /// Returns a number that is not in use, or nullopt if limit() numbers are. It is none of the
  /// reserved numbers 0, 1 and 0xffffff. Allocates nothing.
  [[nodiscard]] std::optional<std::uint32_t> take() noexcept;
  /// Ends the use of a number: it rests until as many others as a quarantine holds were given back,
  /// or numbers are missing. Allocates nothing.
  void give_back(std::uint32_t number) noexcept;

  [[nodiscard]] std::uint32_t in_use() const noexcept { return in_use_; }
  /// How many were taken until now.
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_; }
  /// How many can be in use at once.
  [[nodiscard]] std::uint32_t limit() const noexcept { return max_queue_pairs_of(slot_); }
  /// Whether a number lies in the range of this process.
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
  std::unique_ptr<std::uint64_t[]> reserved_;  ///< bit n: the index n is in use or rests
};

}  // namespace verbena::softdev
