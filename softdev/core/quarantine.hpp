// SPDX-License-Identifier: MIT
// Numbers that must not be reused soon, so that late accesses with an old number fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbena::softdev {

/// Keeps the numbers that were released last, in order. Threads: one thread at a time. Never
/// allocates.
class quarantine {
 public:
  static constexpr std::size_t capacity = 1024;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Adds a number. If there is no room, removes the oldest number and returns it.
  [[nodiscard]] std::optional<std::uint32_t> add(std::uint32_t number) noexcept {
    std::optional<std::uint32_t> oldest;
    if (size_ == capacity) oldest = take_oldest();
    numbers_[(first_ + size_) % capacity] = number;
    ++size_;
    return oldest;
  }
  /// Removes the oldest number and returns it. Returns nullopt if the quarantine is empty.
  [[nodiscard]] std::optional<std::uint32_t> take_oldest() noexcept {
    if (size_ == 0) return std::nullopt;
    const std::uint32_t oldest = numbers_[first_];
    first_ = (first_ + 1) % capacity;
    --size_;
    return oldest;
  }

 private:
  std::array<std::uint32_t, capacity> numbers_{};
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace verbena::softdev
