// SPDX-License-Identifier: MIT
// The state of the device's port, as far as it decides whether messages come and go.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::softdev {

/// A P_Key: which partition, and in the top bit whether its holder is a full member. Two talk when
/// the partition is the same and one of them is a full member (IBTA 10.9.3).
[[nodiscard]] constexpr bool same_partition(std::uint16_t one, std::uint16_t other) noexcept {
  constexpr unsigned partition = 0x7fff;
  return ((one ^ other) & partition) == 0 && (one & partition) != 0 && ((one | other) >> 15U) != 0;
}
inline constexpr std::uint16_t default_partition = 0xffff;

/// Written seldom, read for each message. Threads: thread-safe.
class port_state {
 public:
  /// While the port is down nothing leaves it and nothing comes in; nobody is told.
  [[nodiscard]] bool up() const noexcept { return up_.load(std::memory_order_acquire); }
  /// True when that is a change.
  bool set_up(bool up) noexcept { return up_.exchange(up) != up; }

  /// The local identifier; 0 on a port that has none.
  [[nodiscard]] std::uint16_t lid() const noexcept { return lid_.load(std::memory_order_acquire); }
  void set_lid(std::uint16_t lid) noexcept { lid_.store(lid); }

  static constexpr std::size_t max_partitions = 8;
  /// The P_Key at an index; 0 where there is none.
  [[nodiscard]] std::uint16_t partition(std::size_t index) const noexcept {
    return index < max_partitions ? partitions_[index].load(std::memory_order_acquire)
                                  : std::uint16_t{0};
  }
  void set_partition(std::size_t index, std::uint16_t key) noexcept {
    partitions_[index].store(key);
  }

 private:
  alignas(64) std::atomic<bool> up_{true};
  std::atomic<std::uint16_t> lid_{0};
  std::array<std::atomic<std::uint16_t>, max_partitions> partitions_{default_partition};
};

}  // namespace verbena::softdev
