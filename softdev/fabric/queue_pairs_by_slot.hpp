// SPDX-License-Identifier: MIT
// Lists of queue pairs, one list for each peer process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "softdev/core/spin_lock.hpp"
#include "softdev/core/types.hpp"
#include "softdev/peers/slot_set.hpp"

namespace verbena::softdev {

/// A queue pair, identified by its index, is in one list at most. The cost of insertion and removal
/// does not depend on the number of queue pairs and processes. Threads: thread-safe. Allocates only
/// in its constructor; places that were never used take no memory.
class queue_pairs_by_slot {
 public:
  queue_pairs_by_slot() : places_(make_places()) {}

  [[nodiscard]] bool empty() const noexcept { return count_.load(std::memory_order_seq_cst) == 0; }
  /// Appends a queue pair to the list of `slot`, unless it is there. Leaves its earlier list.
  void insert(std::uint32_t slot, std::uint32_t index) noexcept {
    const std::lock_guard lock(lock_);
    place& at = places_[index];
    if (at.list == slot + 1) return;
    if (at.list != 0) unlink(index);
    list& to = lists_[slot];
    if (to.first == 0) used_.insert(slot);
    at = {.list = slot + 1, .before = to.last, .after = 0};
    (to.last != 0 ? places_[to.last - 1].after : to.first) = index + 1;
    to.last = index + 1;
    ++to.count;
    count_.fetch_add(1, std::memory_order_seq_cst);
  }
  void erase(std::uint32_t index) noexcept {
    const std::lock_guard lock(lock_);
    if (places_[index].list != 0) unlink(index);
  }
  /// Removes the first queue pair of a list.
  [[nodiscard]] std::optional<std::uint32_t> take_first(std::uint32_t slot) noexcept {
    const std::lock_guard lock(lock_);
    const std::uint32_t first = lists_[slot].first;
    if (first == 0) return std::nullopt;
    unlink(first - 1);
    return first - 1;
  }
  [[nodiscard]] std::uint32_t count_of(std::uint32_t slot) const noexcept {
    const std::lock_guard lock(lock_);
    return lists_[slot].count;
  }
  [[nodiscard]] bool contains(std::uint32_t slot, std::uint32_t index) const noexcept {
    const std::lock_guard lock(lock_);
    return places_[index].list == slot + 1;
  }
  /// Calls `visit(slot)` for each list that is not empty, without the lock.
  template <class Visitor>
  void for_each_slot(Visitor&& visit) const {
    used_.for_each(visit);
  }
  /// Calls `visit(index)` for each queue pair of a list, with the lock.
  template <class Visitor>
  void for_each(std::uint32_t slot, Visitor&& visit) const {
    const std::lock_guard lock(lock_);
    for (std::uint32_t at = lists_[slot].first; at != 0; at = places_[at - 1].after) visit(at - 1);
  }

 private:
  // Zero means none; other values are a slot or an index, plus 1.
  struct place {
    std::uint32_t list;
    std::uint32_t before;
    std::uint32_t after;
  };
  struct list {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::uint32_t count = 0;
  };
  struct free_places {
    void operator()(place* all) const noexcept { std::free(all); }
  };
  using places = std::unique_ptr<place[], free_places>;
  static places make_places() {
    // calloc(3) leaves pages of zeros untouched.
    auto* const all = static_cast<place*>(std::calloc(limits::queue_pair_indices, sizeof(place)));
    if (all == nullptr) throw std::bad_alloc();
    return places(all);
  }
  void unlink(std::uint32_t index) noexcept {
    const place was = places_[index];
    list& from = lists_[was.list - 1];
    (was.before != 0 ? places_[was.before - 1].after : from.first) = was.after;
    (was.after != 0 ? places_[was.after - 1].before : from.last) = was.before;
    if (--from.count == 0) used_.erase(was.list - 1);
    places_[index] = {};
    count_.fetch_sub(1, std::memory_order_seq_cst);
  }

  mutable spin_lock lock_;
  std::atomic<std::uint32_t> count_{0};
  slot_set used_;  ///< lists that are not empty
  std::array<list, slot_count> lists_{};
  places places_;
};

}  // namespace verbena::softdev
