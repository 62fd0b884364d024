// SPDX-License-Identifier: MIT
// The PSNs that a responder has received although an earlier packet is missing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// Contains all PSNs before `first` and any of the `capacity` PSNs from `first` on.
struct psn_set {
  static constexpr std::uint32_t capacity = 1024;
  static constexpr std::uint32_t word_bits = 64;

  std::uint32_t first = 0;
  std::array<std::uint64_t, capacity / word_bits> words{};

  [[nodiscard]] bool contains(std::uint32_t psn) const noexcept {
    const std::int32_t ahead = psn_distance(first, psn);
    if (ahead < 0) return true;
    const auto bit = static_cast<std::uint32_t>(ahead);
    return bit < capacity && (words[bit / word_bits] >> (bit % word_bits) & 1U) != 0;
  }
  /// Precondition: `psn` is `first` or one of the capacity - 1 PSNs after it.
  void insert(std::uint32_t psn) noexcept {
    const auto bit = static_cast<std::uint32_t>(psn_distance(first, psn));
    words[bit / word_bits] |= std::uint64_t{1} << (bit % word_bits);
  }
  /// Returns the number of PSNs of the set from `psn` on, which is `first` or a later one.
  [[nodiscard]] std::uint32_t count_from(std::uint32_t psn) const noexcept {
    const auto begin = static_cast<std::uint32_t>(psn_distance(first, psn));
    int count = 0;
    for (std::uint32_t i = begin / word_bits; i < words.size(); ++i)
      count += std::popcount(i * word_bits < begin ? words[i] >> (begin % word_bits) : words[i]);
    return static_cast<std::uint32_t>(count);
  }
  /// True if it contains no PSN from `first` on.
  [[nodiscard]] bool empty() const noexcept { return end() == first; }
  /// Returns the PSN after the highest PSN of the set.
  [[nodiscard]] std::uint32_t end() const noexcept {
    for (std::size_t i = words.size(); i > 0; --i)
      if (words[i - 1] != 0)
        return psn_plus(first, static_cast<std::uint32_t>(i * word_bits) -
                                   static_cast<std::uint32_t>(std::countl_zero(words[i - 1])));
    return first;
  }

  bool operator==(const psn_set&) const = default;
};

}  // namespace verbena::softdev::wire
