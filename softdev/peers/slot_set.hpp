// SPDX-License-Identifier: MIT
// A set of slots: one bit for each process that this process may know.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "softdev/shm/segment_layout.hpp"

namespace verbena::softdev {

/// Threads: thread-safe. Never allocates.
class slot_set {
 public:
  void insert(std::uint32_t slot) noexcept {
    words_[slot / 64].fetch_or(bit_of(slot), std::memory_order_seq_cst);
  }
  void erase(std::uint32_t slot) noexcept {
    words_[slot / 64].fetch_and(~bit_of(slot), std::memory_order_seq_cst);
  }
  [[nodiscard]] bool contains(std::uint32_t slot) const noexcept {
    return (words_[slot / 64].load(std::memory_order_relaxed) & bit_of(slot)) != 0;
  }
  /// Calls `visit(slot)` for each slot of the set. Costs one load for each 64 slots, and the
  /// visits.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      visit_word(word, words_[word].load(std::memory_order_seq_cst), visit);
    }
  }
  /// Removes each slot, then calls `visit(slot)`.
  template <class Visitor>
  void drain(Visitor&& visit) {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      if (words_[word].load(std::memory_order_relaxed) == 0) continue;
      visit_word(word, words_[word].exchange(0, std::memory_order_seq_cst), visit);
    }
  }

 private:
  static constexpr std::uint64_t bit_of(std::uint32_t slot) noexcept {
    return std::uint64_t{1} << (slot % 64);
  }
  template <class Visitor>
  static void visit_word(std::size_t word, std::uint64_t bits, Visitor& visit) {
    for (; bits != 0; bits &= bits - 1) {
      visit(static_cast<std::uint32_t>(word * 64) +
            static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }

  std::array<std::atomic<std::uint64_t>, slot_count / 64> words_{};
};

/// Conditions of peers that one thread finds and another thread handles.
struct peer_marks {
  slot_set full_rings;        ///< the ring to the peer was full
  slot_set retired_mappings;  ///< mappings of the peer's memory must be dropped
};

}  // namespace verbena::softdev
