// SPDX-License-Identifier: MIT
// The packets of one READ response that a responder still has to send.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

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
  /// Records that the next packet was sent.
  void step() noexcept {
    if (++next_ == ranges_[0].end) remove(0);
  }
  void clear() noexcept { count_ = 0; }

  /// Adds the response, or a part of it that the peer requests. `total`: the packets of the whole
  /// response. A part that will be sent anyway is not added. A part that reaches the end replaces
  /// the due rest of the response. Parts of that rest that the peer has requested remain due; the
  /// peer has the other packets or requests them separately.
  void add(const response_range& asked, std::uint32_t total) noexcept {
    const bool reaches_end = asked.end == total;
    for (std::size_t i = 0; i < count_ && !reaches_end; ++i) {
      if (first_unsent(i) > asked.begin || asked.end > ranges_[i].end) continue;
      if (ranges_[i].end == total) include(asked);
      return;
    }
    if (reaches_end && !has_rest(total)) included_ = {};
    for (std::size_t i = count_; i > 0; --i) {
      const response_range& which = ranges_[i - 1];
      if (asked.begin <= first_unsent(i - 1) && which.end <= asked.end) {
        if (reaches_end && which.end != total) include(which);
        remove(i - 1);
      } else if (reaches_end && which.end == total && replace_rest(i - 1, asked.begin)) {
        return;
      }
    }
    append(asked, total);
  }

 private:
  [[nodiscard]] static response_range hull(const response_range& a,
                                           const response_range& b) noexcept {
    return {std::min(a.begin, b.begin), std::max(a.end, b.end), std::max(a.end_bytes, b.end_bytes)};
  }
  [[nodiscard]] std::uint32_t first_unsent(std::size_t index) const noexcept {
    return index == 0 ? next_ : ranges_[index].begin;
  }
  /// Returns whether a range reaches the end of the response.
  [[nodiscard]] bool has_rest(std::uint32_t total) const noexcept {
    const auto due = ranges_.begin();
    return std::any_of(due, due + static_cast<std::ptrdiff_t>(count_),
                       [total](const response_range& each) { return each.end == total; });
  }
  /// Records that the range that reaches the end of the response contains a requested part.
  void include(const response_range& part) noexcept {
    included_ = included_.begin == included_.end ? part : hull(included_, part);
  }
  /// The peer requests the packets from `begin` on. Reduces the rest of the response to the
  /// requested parts that it contains. Returns true if it still contains the packets from `begin`
  /// on.
  [[nodiscard]] bool replace_rest(std::size_t index, std::uint32_t begin) noexcept {
    response_range kept = std::exchange(included_, {});
    kept.begin = std::max(kept.begin, first_unsent(index));
    if (kept.begin >= kept.end) {
      remove(index);
      return false;
    }
    const bool reaches = kept.end >= begin;
    if (reaches) {
      included_ = kept;
      kept = {kept.begin, ranges_[index].end, ranges_[index].end_bytes};
    }
    ranges_[index] = kept;
    if (index == 0) next_ = kept.begin;
    return reaches;
  }
  void append(const response_range& asked, std::uint32_t total) noexcept {
    if (count_ < capacity) {
      if (count_ == 0) next_ = asked.begin;
      ranges_[count_++] = asked;
      return;
    }
    response_range& last = ranges_[count_ - 1];
    if (last.end == total)
      include(asked);
    else if (asked.end == total)
      include(last);
    last = hull(last, asked);
  }
  void remove(std::size_t index) noexcept {
    for (std::size_t i = index + 1; i < count_; ++i) ranges_[i - 1] = ranges_[i];
    --count_;
    if (index == 0 && count_ > 0) next_ = ranges_[0].begin;
  }

  std::array<response_range, capacity> ranges_{};
  std::size_t count_ = 0;
  std::uint32_t next_ = 0;
  /// Contains the requested parts within the range that reaches the end; can contain other packets.
  response_range included_{};
};

}  // namespace verbena::softdev::wire
