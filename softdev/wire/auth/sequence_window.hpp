// SPDX-License-Identifier: MIT
// The sequence numbers of one sender that have arrived.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::softdev::wire {

/// Accepts each sequence number once, in any order, unless it is too old (after RFC 6479). Threads:
/// one thread at a time.
class sequence_window {
 public:
  /// Numbers that are at most this far behind the highest one are accepted.
  static constexpr std::uint64_t reach = 31 * 64;

  /// Returns false for a number that was accepted before, for one that is too old, and for 0.
  [[nodiscard]] bool accept(std::uint64_t sequence) noexcept {
    const std::uint64_t word = sequence / 64;
    const std::uint64_t highest_word = highest_ / 64;
    if (sequence == 0) return false;
    if (sequence > highest_) {
      // Clears the words between the two: their numbers were not received.
      for (std::uint64_t i = 1; i <= words && highest_word + i <= word; ++i)
        seen_[(highest_word + i) % words] = 0;
      highest_ = sequence;
    } else if (highest_ - sequence > reach) {
      return false;
    }
    const std::uint64_t bit = std::uint64_t{1} << sequence % 64;
    std::uint64_t& at = seen_[word % words];
    if ((at & bit) != 0) return false;
    at |= bit;
    return true;
  }

 private:
  static constexpr std::size_t words = 32;

  std::uint64_t highest_ = 0;
  std::array<std::uint64_t, words> seen_{};
};

}  // namespace verbena::softdev::wire
