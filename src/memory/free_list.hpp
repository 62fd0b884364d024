// SPDX-License-Identifier: MIT
// Which of a fixed number of things are free: a stack of their numbers, without locks. A thread
// that is stopped in the middle of a call keeps nobody from going on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Numbers from 0 to count - 1, all of them free at first; 0 is the first to go. What a thread did
/// before push(n) is visible to the thread whose pop() yields n. Threads: thread-safe.
class free_list {
 public:
  /// Precondition: count < 2^32 - 1. Allocates; nothing else does.
  explicit free_list(std::uint32_t count)
      : next_(std::make_unique<std::atomic<std::uint32_t>[]>(count)),
        head_(head_of(count == 0 ? none : 0, 0)) {
    for (std::uint32_t i = 0; i < count; ++i)
      next_[i].store(i + 1 == count ? none : i + 1, std::memory_order_relaxed);
  }

  /// Takes the number that was freed last; nothing if none is free.
  [[nodiscard]] std::optional<std::uint32_t> pop() noexcept {
    std::uint64_t seen = head_.load(std::memory_order_acquire);
    while (true) {
      const auto first = static_cast<std::uint32_t>(seen);
      if (first == none) return std::nullopt;
      // Another thread may have taken `first` by now: then `after` is old, and so is the tag.
      const std::uint32_t after = next_[first].load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(seen, head_of(after, tag_of(seen) + 1),
                                      std::memory_order_acquire, std::memory_order_acquire))
        return first;
    }
  }

  /// Frees `number`, which must not be free.
  void push(std::uint32_t number) noexcept {
    std::uint64_t seen = head_.load(std::memory_order_relaxed);
    do {
      next_[number].store(static_cast<std::uint32_t>(seen), std::memory_order_relaxed);
    } while (!head_.compare_exchange_weak(seen, head_of(number, tag_of(seen)),
                                          std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  static constexpr std::uint32_t none = 0xffff'ffff;

  // The tag counts what was taken, so that a head is not mistaken for an earlier one with the same
  // first number and another second one.
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
