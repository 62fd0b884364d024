// SPDX-License-Identifier: MIT
// The queue pairs that have work: a bitmap with a summary, so that idle queue pairs cost nothing.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// A set of indices below limits::queue_pair_indices. Threads: thread-safe. Never allocates.
class active_set {
 public:
  /// Adds an index. Returns whether it was not in the set.
  bool insert(std::uint32_t index) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    auto& word = words_[index / 64];
    const bool added = (word.fetch_or(bit, std::memory_order_acq_rel) & bit) == 0;
    summary_[index / 4096].fetch_or(std::uint64_t{1} << (index / 64 % 64),
                                    std::memory_order_acq_rel);
    return added;
  }
  /// Removes an index. A concurrent insertion of the same index may be lost: only one thread at a
  /// time may change an index.
  void erase(std::uint32_t index) noexcept {
    words_[index / 64].fetch_and(~(std::uint64_t{1} << (index % 64)), std::memory_order_acq_rel);
  }
  /// Calls `visit(index)` for every index of the set. Costs one load per 64 indices in the parts of
  /// the set that were used.
  template <class Visitor>
  void for_each(Visitor&& visit) const noexcept {
    for (std::size_t top = 0; top < summary_.size(); ++top) {
      std::uint64_t middle = summary_[top].load(std::memory_order_acquire);
      for (; middle != 0; middle &= middle - 1) {
        const std::size_t index = top * 64 + static_cast<std::size_t>(std::countr_zero(middle));
        std::uint64_t bits = words_[index].load(std::memory_order_acquire);
        for (; bits != 0; bits &= bits - 1)
          visit(static_cast<std::uint32_t>(index * 64) +
                static_cast<std::uint32_t>(std::countr_zero(bits)));
      }
    }
  }
  [[nodiscard]] bool empty() const noexcept {
    for (const auto& word : summary_)
      if (word.load(std::memory_order_acquire) != 0) return false;
    return true;
  }
  /// Removes every index and calls `visit(index)` for each.
  template <class Visitor>
  void drain(Visitor&& visit) noexcept {
    for (std::size_t top = 0; top < summary_.size(); ++top) {
      if (summary_[top].load(std::memory_order_relaxed) == 0) continue;
      std::uint64_t middle = summary_[top].exchange(0, std::memory_order_acq_rel);
      for (; middle != 0; middle &= middle - 1) {
        const std::size_t index = top * 64 + static_cast<std::size_t>(std::countr_zero(middle));
        std::uint64_t bits = words_[index].exchange(0, std::memory_order_acq_rel);
        for (; bits != 0; bits &= bits - 1)
          visit(static_cast<std::uint32_t>(index * 64) +
                static_cast<std::uint32_t>(std::countr_zero(bits)));
      }
    }
  }

  /// Removes every index and calls `visit(index)` for each: first for those from `begin` on, then
  /// for the others. An index that is inserted meanwhile is not visited twice.
  template <class Visitor>
  void drain_from(std::uint32_t begin, Visitor&& visit) noexcept {
    drain_range(begin, limits::queue_pair_indices, visit);
    drain_range(0, begin, visit);
  }

 private:
  /// Returns the bits of the numbers [first, first + 64) that are in [begin, end).
  [[nodiscard]] static constexpr std::uint64_t bits_within(std::size_t first, std::size_t begin,
                                                           std::size_t end) noexcept {
    if (end <= first || begin >= first + 64) return 0;
    const std::uint64_t from =
        begin <= first ? ~std::uint64_t{0} : ~std::uint64_t{0} << (begin - first);
    const std::uint64_t to =
        end >= first + 64 ? ~std::uint64_t{0} : ~(~std::uint64_t{0} << (end - first));
    return from & to;
  }
  template <class Visitor>
  void drain_range(std::size_t begin, std::size_t end, Visitor& visit) noexcept {
    for (std::size_t top = 0; top < summary_.size(); ++top) {
      const std::uint64_t words = bits_within(top * 64, begin / 64, (end + 63) / 64);
      if ((summary_[top].load(std::memory_order_relaxed) & words) == 0) continue;
      std::uint64_t middle = summary_[top].fetch_and(~words, std::memory_order_acq_rel) & words;
      for (; middle != 0; middle &= middle - 1) {
        const auto place = static_cast<std::size_t>(std::countr_zero(middle));
        const std::size_t index = top * 64 + place;
        const std::uint64_t within = bits_within(index * 64, begin, end);
        const std::uint64_t before = words_[index].fetch_and(~within, std::memory_order_acq_rel);
        if ((before & ~within) != 0)
          summary_[top].fetch_or(std::uint64_t{1} << place, std::memory_order_acq_rel);
        for (std::uint64_t bits = before & within; bits != 0; bits &= bits - 1)
          visit(static_cast<std::uint32_t>(index * 64) +
                static_cast<std::uint32_t>(std::countr_zero(bits)));
      }
    }
  }

  static constexpr std::size_t words_count_ = limits::queue_pair_indices / 64;
  std::array<std::atomic<std::uint64_t>, words_count_> words_{};
  std::array<std::atomic<std::uint64_t>, words_count_ / 64> summary_{};
};

}  // namespace verbena::softdev
