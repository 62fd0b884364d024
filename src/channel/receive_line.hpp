// SPDX-License-Identifier: MIT
// The receives of a message channel: posted, or arrived and not yet taken; together never more than
// its places, so that what was not taken holds the peer back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "verbena/base/assert.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Threads: one thread at a time.
class receive_line {
 public:
  /// A message that arrived, in the place `place`.
  struct arrival {
    std::uint32_t place = 0;
    std::uint32_t length = 0;
  };

  explicit receive_line(std::uint32_t places) : places_(places), arrived_(places) {
    free_.reserve(places);
    for (std::uint32_t i = places; i > 0; --i) free_.push_back(i - 1);
  }

  /// Receives that are posted.
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  /// Receives that could be posted.
  [[nodiscard]] std::uint32_t missing() const noexcept {
    return static_cast<std::uint32_t>(free_.size());
  }
  /// Whether so many are missing that posting them is worth a doorbell, or the peer waits.
  [[nodiscard]] bool is_worth_posting() const noexcept {
    const std::uint32_t quarter = std::max<std::uint32_t>(1, capacity() / 4);
    return missing() != 0 && (missing() >= quarter || missing() >= posted_);
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept {
    return static_cast<std::uint32_t>(places_.size());
  }

  /// Holds the memory of a receive that is about to be posted. Precondition: missing() != 0.
  [[nodiscard]] std::uint32_t hold(buffer&& memory) noexcept {
    const std::uint32_t place = free_.back();
    free_.pop_back();
    places_[place] = {std::move(memory), true};
    ++posted_;
    return place;
  }
  /// Its memory.
  [[nodiscard]] const buffer& at(std::uint32_t place) const noexcept { return places_[place].held; }
  /// A receive that ended without a message, or was not posted after all; its memory goes back.
  void release(std::uint32_t place) noexcept {
    places_[place] = {};
    free_.push_back(place);  // has room for all places
    --posted_;
  }
  /// A message arrived.
  void arrive(std::uint32_t place, std::uint32_t length) noexcept {
    std::size_t end = first_ + arrived_count_++;
    if (end >= arrived_.size()) end -= arrived_.size();
    arrived_[end] = {place, length};
    places_[place].posted = false;
    --posted_;
  }
  /// Whether next() has something.
  [[nodiscard]] bool has_arrived() const noexcept { return arrived_count_ != 0; }
  /// The oldest message that was not taken. Precondition: has_arrived().
  [[nodiscard]] std::pair<buffer, std::uint32_t> next() noexcept {
    const arrival oldest = arrived_[first_];
    if (++first_ == arrived_.size()) first_ = 0;
    --arrived_count_;
    free_.push_back(oldest.place);
    return {std::move(places_[oldest.place].held), oldest.length};
  }
  /// Whether a receive is posted in that place.
  [[nodiscard]] bool is_posted(std::uint64_t place) const noexcept {
    return place < places_.size() && places_[place].posted;
  }
  /// All that is posted ended without a message.
  void release_all() noexcept {
    for (std::uint32_t i = 0; i < capacity(); ++i)
      if (places_[i].posted) release(i);
  }

 private:
  struct entry {
    buffer held;
    bool posted = false;
  };

  std::vector<entry> places_;
  std::vector<std::uint32_t> free_;
  std::vector<arrival> arrived_;  // a ring
  std::size_t first_ = 0;
  std::size_t arrived_count_ = 0;
  std::uint32_t posted_ = 0;
};

}  // namespace verbena::inline VERBENA_ABI::detail
