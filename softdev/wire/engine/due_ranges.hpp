// SPDX-License-Identifier: MIT
// The packets of one READ response that a responder still has to send.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::softdev::wire {

/// Packets of a READ response, as indexes in the response.
struct response_range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t end_bytes = 0;  ///< the offset of the last byte plus 1

  bool operator==(const response_range&) const = default;
};

/// The ranges that are sent, in the order of their requests: first the response, then parts that
/// the peer has requested again. Threads: one thread at a time.
class due_ranges {
 public:
  /// The maximum number of ranges. A further one is merged into the last, so that none is lost.
  static constexpr std::size_t capacity = 8;

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Returns the range that is being sent. Precondition: !empty().
  [[nodiscard]] const response_range& current() const noexcept { return ranges_[0]; }
  /// Returns the next packet of the current range.
  [[nodiscard]] std::uint32_t next() const noexcept { return next_; }
  /// Records that the next packet was sent. Returns true if it was the last one of its range.
  bool step() noexcept {
    if (++next_ != ranges_[0].end) return false;
    remove(0);
    return true;
  }
  void clear() noexcept { count_ = 0; }

  /// Adds the response, or a part of it that the peer requests. `total`: the packets of the whole
  /// response. A part that will be sent anyway is not added. A part that reaches the end of the
  /// response replaces the rest of the response: the peer does not need the packets before it, or
  /// requests them separately.
  void add(const response_range& asked, std::uint32_t total) noexcept {
    for (std::size_t i = 0; i < count_ && asked.end != total; ++i)
      if (first_unsent(i) <= asked.begin && asked.end <= ranges_[i].end) return;
    for (std::size_t i = count_; i > 0; --i)
      if (is_replaced(i - 1, asked, total)) remove(i - 1);
    if (count_ < capacity) {
      if (count_ == 0) next_ = asked.begin;
      ranges_[count_++] = asked;
      return;
    }
    response_range& last = ranges_[count_ - 1];
    last = {std::min(last.begin, asked.begin), std::max(last.end, asked.end),
            std::max(last.end_bytes, asked.end_bytes)};
  }

 private:
  [[nodiscard]] std::uint32_t first_unsent(std::size_t index) const noexcept {
    return index == 0 ? next_ : ranges_[index].begin;
  }
  [[nodiscard]] bool is_replaced(std::size_t index, const response_range& by,
                                 std::uint32_t total) const noexcept {
    const response_range& which = ranges_[index];
    const bool reaches_end = which.end == total && by.end == total;
    return reaches_end || (by.begin <= first_unsent(index) && which.end <= by.end);
  }
  void remove(std::size_t index) noexcept {
    for (std::size_t i = index + 1; i < count_; ++i) ranges_[i - 1] = ranges_[i];
    --count_;
    if (index == 0 && count_ > 0) next_ = ranges_[0].begin;
  }

  std::array<response_range, capacity> ranges_{};
  std::size_t count_ = 0;
  std::uint32_t next_ = 0;
};

}  // namespace verbena::softdev::wire
