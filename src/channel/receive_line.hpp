// SPDX-License-Identifier: MIT
// The receives of a message channel: posted receives, and messages that the program has not taken
// yet. Both occupy places, so unread messages stop the peer from sending (back-pressure).
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
  /// A message that has arrived: its place and its length in bytes.
  struct arrival {
    std::uint32_t place = 0;
    std::uint32_t length = 0;
  };

  /// Creates places for `messages` messages of the peer and `spare` additional receives.
  receive_line(std::uint32_t messages, std::uint32_t spare)
      : places_(std::size_t{messages} + spare),
        arrived_(places_.size()),
        messages_(messages),
        spare_(spare) {
    free_.reserve(places_.size());
    for (std::uint32_t i = capacity(); i > 0; --i) free_.push_back(i - 1);
  }

  /// Returns the number of posted receives.
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  /// Returns the number of receives that can be posted.
  [[nodiscard]] std::uint32_t missing() const noexcept {
    return static_cast<std::uint32_t>(free_.size());
  }
  /// Returns the number of posted receives minus the spare receives. If 0, the peer may be waiting.
  [[nodiscard]] std::uint32_t posted_for_messages() const noexcept {
    return posted_ > spare_ ? posted_ - spare_ : 0;
  }
  /// Returns true if enough receives are missing to justify a doorbell, or if the peer may soon
  /// have no receive.
  [[nodiscard]] bool is_worth_posting() const noexcept {
    return missing() != 0 && (missing() >= quarter() || missing() >= posted_for_messages());
  }
  /// Returns a quarter of the number of messages for which there are places, at least 1.
  [[nodiscard]] std::uint32_t quarter() const noexcept {
    return std::max<std::uint32_t>(1, messages_ / 4);
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept {
    return static_cast<std::uint32_t>(places_.size());
  }

  /// Stores the buffer of a receive that is about to be posted. Returns its place. Precondition:
  /// missing() != 0.
  [[nodiscard]] std::uint32_t hold(buffer&& memory) noexcept {
    const std::uint32_t place = free_.back();
    free_.pop_back();
    places_[place] = {std::move(memory), true};
    ++posted_;
    return place;
  }
  /// Returns the buffer of a place.
  [[nodiscard]] const buffer& at(std::uint32_t place) const noexcept { return places_[place].held; }
  /// Frees the place of a receive without a message. The buffer returns to its pool.
  void release(std::uint32_t place) noexcept {
    places_[place] = {};
    free_.push_back(place);  // has room for all places
    --posted_;
  }
  /// Records a message of `length` bytes that has arrived in `place`.
  void arrive(std::uint32_t place, std::uint32_t length) noexcept {
    std::size_t end = first_ + arrived_count_++;
    if (end >= arrived_.size()) end -= arrived_.size();
    arrived_[end] = {place, length};
    places_[place].posted = false;
    --posted_;
  }
  /// Returns true if next() has a message.
  [[nodiscard]] bool has_arrived() const noexcept { return arrived_count_ != 0; }
  /// Removes the oldest message. Its buffer is taken from memory_of() before the next hold().
  /// Precondition: has_arrived().
  [[nodiscard]] arrival next() noexcept {
    const arrival oldest = arrived_[first_];
    if (++first_ == arrived_.size()) first_ = 0;
    --arrived_count_;
    free_.push_back(oldest.place);
    return oldest;
  }
  /// Returns the buffer of a message that next() returned, to be moved from.
  [[nodiscard]] buffer& memory_of(const arrival& taken) noexcept {
    return places_[taken.place].held;
  }
  /// Returns true if a receive is posted in `place`.
  [[nodiscard]] bool is_posted(std::uint64_t place) const noexcept {
    return place < places_.size() && places_[place].posted;
  }
  /// Frees the places of all posted receives.
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
  std::uint32_t messages_;
  std::uint32_t spare_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
