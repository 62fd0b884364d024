// SPDX-License-Identifier: MIT
// Polled completions that the program has not taken yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>

#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// Completions of one queue, oldest first. Threads: one thread at a time.
class completion_inbox {
 public:
  void put(const completion& done) { waiting_.push_back(done); }

  /// Returns whether `count` completions are available, or one of the first `count` has failed.
  [[nodiscard]] bool answers(std::size_t count) const {
    return waiting_.size() >= count || failure_among(count) != waiting_.end();
  }
  /// Removes and returns the first failed completion of the first `count`, or nullopt.
  [[nodiscard]] std::optional<completion> take_failure(std::size_t count) {
    const auto found = failure_among(count);
    if (found == waiting_.end()) return std::nullopt;
    const completion failed = *found;
    waiting_.erase(found);
    return failed;
  }
  /// Fills `out`. If fewer completions are available, takes none and returns false.
  [[nodiscard]] bool take(std::span<completion> out) {
    if (waiting_.size() < out.size()) return false;
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(out.size());
    std::copy(waiting_.begin(), end, out.begin());
    waiting_.erase(waiting_.begin(), end);
    return true;
  }

 private:
  [[nodiscard]] std::deque<completion>::const_iterator failure_among(std::size_t count) const {
    const auto first = waiting_.begin();
    const auto last = first + static_cast<std::ptrdiff_t>(std::min(count, waiting_.size()));
    const auto found = std::find_if(first, last, [](const completion& each) { return !each.ok(); });
    return found == last ? waiting_.end() : found;
  }

  std::deque<completion> waiting_;
};

}  // namespace verbena::inline VERBENA_ABI::cm::detail
