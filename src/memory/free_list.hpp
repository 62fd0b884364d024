// SPDX-License-Identifier: MIT
// A lock-free stack of the numbers of free objects. A thread that stops in the middle of a call
// does not block other threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The free numbers from 0 to count - 1. Initially all numbers are free, and pop() returns 0 first.
/// Writes before push(n) are visible after the pop() that returns n. Threads: thread-safe.
class free_list {
 public:
  /// Creates a list of `count` free numbers. Precondition: count < 2^32 - 1. Allocates; the other
  /// members do not.
  explicit free_list(std::uint32_t count)
      : next_(std::make_unique<std::atomic<std::uint32_t>[]>(count)),
        head_(head_of(count == 0 ? none : 0, 0)) {
    for (std::uint32_t i = 0; i < count; ++i)
      next_[i].store(i + 1 == count ? none : i + 1, std::memory_order_relaxed);
  }

  /// Takes the number that was freed last, or returns nullopt if no number is free. Does not block.
  [[nodiscard]] std::optional<std::uint32_t> pop() noexcept {
    std::uint64_t seen = head_.load(std::memory_order_acquire);
    while (true) {
      const auto first = static_cast<std::uint32_t>(seen);
      if (first == none) return std::nullopt;
      // If another thread has taken `first`, `after` is stale, and the tag differs.
      const std::uint32_t after = next_[first].load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(seen, head_of(after, tag_of(seen) + 1),
                                      std::memory_order_acquire, std::memory_order_acquire))
        return first;
    }
  }

  /// Frees `number`, which must not be free. Does not block.
  void push(std::uint32_t number) noexcept {
    std::uint64_t seen = head_.load(std::memory_order_relaxed);
    do {
      next_[number].store(static_cast<std::uint32_t>(seen), std::memory_order_relaxed);
    } while (!head_.compare_exchange_weak(seen, head_of(number, tag_of(seen)),
                                          std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  static constexpr std::uint32_t none = 0xffff'ffff;

  // The tag counts pops, so that a head differs from an earlier head with an equal first number
  // (ABA).
  static constexpr std::uint64_t head_of(std::uint32_t first, std::uint32_t tag) noexcept {
    return (std::uint64_t{tag} << 32U) | first;
  }
  static constexpr std::uint32_t tag_of(std::uint64_t head) noexcept {
    return static_cast<std::uint32_t>(head >> 32U);
  }

  std::unique_ptr<std::atomic<std::uint32_t>[]> next_;
  alignas(64) std::atomic<std::uint64_t> head_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
