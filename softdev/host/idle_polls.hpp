// SPDX-License-Identifier: MIT
// Polls that find nothing. If there are fewer processors than polling threads, a program that polls
// all the time would keep its processor from the process for which it waits.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::softdev {

/// Counts consecutive polls that found nothing. Threads: thread-safe. If several threads poll at
/// the same time, counts may be lost, which does no harm.
class idle_polls {
 public:
  /// This number of polls takes tens of microseconds, longer than an answer of a running peer.
  static constexpr std::uint32_t patience = 500;

  void note_found() noexcept {
    if (count_.load(std::memory_order_relaxed) != 0) count_.store(0, std::memory_order_relaxed);
  }
  /// Counts a poll that found nothing. Returns whether to yield the processor.
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
