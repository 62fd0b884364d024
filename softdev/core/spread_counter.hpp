// SPDX-License-Identifier: MIT
// A counter that many threads increment without writing to one cache line.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::softdev {

/// Counts approximately. Threads: thread-safe. Threads that share a place and count at the same
/// time may lose an increment, which saves a locked instruction.
class spread_counter {
 public:
  void add(std::uint64_t count = 1) noexcept {
    auto& mine = places_[place_of_thread()].value;
    mine.store(mine.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  /// Returns a snapshot of the count.
  [[nodiscard]] std::uint64_t sum() const noexcept {
    std::uint64_t all = 0;
    for (const auto& each : places_) all += each.value.load(std::memory_order_relaxed);
    return all;
  }

 private:
  struct alignas(64) place {
    std::atomic<std::uint64_t> value{0};
  };
  static constexpr std::size_t count_ = 16;
  [[nodiscard]] static std::size_t place_of_thread() noexcept {
    const auto self = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
    return self * std::uint64_t{0x9e3779b97f4a7c15} >> 60;
  }

  std::array<place, count_> places_{};
};

}  // namespace verbena::softdev
