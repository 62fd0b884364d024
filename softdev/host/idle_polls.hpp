// SPDX-License-Identifier: MIT
// Polls that find nothing. A program that polls without end would keep its processor from the very
// process that it waits for, where processors are fewer than those who poll.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::softdev {

/// Counts polls in a row that found nothing. Threads: thread-safe; threads that poll at once may
/// lose counts, which does no harm.
class idle_polls {
 public:
  /// So many are tens of microseconds: longer than an answer takes when the peer has a processor.
  static constexpr std::uint32_t patience = 500;

  void note_found() noexcept {
    if (count_.load(std::memory_order_relaxed) != 0) count_.store(0, std::memory_order_relaxed);
  }
  /// True when others should have the processor now.
  [[nodiscard]] bool note_nothing() noexcept {
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    if (count == patience) return true;
    count_.store(count + 1, std::memory_order_relaxed);
    return false;
  }

 private:
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace verbena::softdev
