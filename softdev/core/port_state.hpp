// SPDX-License-Identifier: MIT
// The state of the device's ports that decides whether messages are sent and received. Each port is
// up or down; LID and P_Keys are those of all ports.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softdev/core/failure.hpp"

namespace verbena::softdev {

/// Returns whether two P_Keys permit communication: they name the same partition, and at least one
/// of them has the top bit, which marks a full member (IBTA 10.9.3).
[[nodiscard]] constexpr bool same_partition(std::uint16_t one, std::uint16_t other) noexcept {
  constexpr unsigned partition = 0x7fff;
  return ((one ^ other) & partition) == 0 && (one & partition) != 0 && ((one | other) >> 15U) != 0;
}
inline constexpr std::uint16_t default_partition = 0xffff;

/// Rarely written, read for each message. Threads: thread-safe.
class port_state {
 public:
  static constexpr std::uint8_t max_ports = 4;
  /// Returns the number of ports. They are numbered from 1.
  [[nodiscard]] std::uint8_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  void set_count(std::uint8_t count) noexcept { count_.store(count); }
  [[nodiscard]] bool has(std::uint32_t port) const noexcept { return port != 0 && port <= count(); }

  /// Returns whether a port is up; false for a number above max_ports. While a port is down,
  /// messages in both directions are dropped without notice. Port 0, that of a queue pair in RESET,
  /// is up.
  [[nodiscard]] bool up(std::uint8_t port) const noexcept {
    return port == 0 || (port <= max_ports && up_[port - 1U].load(std::memory_order_acquire));
  }
  /// Sets the state of a port. Returns whether it has changed. Precondition: has(port).
  bool set_up(std::uint8_t port, bool up) noexcept { return up_[port - 1U].exchange(up) != up; }

  /// Returns the local identifier (LID); 0 if the port has none.
  [[nodiscard]] std::uint16_t lid() const noexcept { return lid_.load(std::memory_order_acquire); }
  void set_lid(std::uint16_t lid) noexcept { lid_.store(lid); }

  static constexpr std::size_t max_pkeys = 8;
  /// Returns the P_Key at an index; 0 if the index has none.
  [[nodiscard]] std::uint16_t pkey(std::size_t index) const noexcept {
    return index < max_pkeys ? pkeys_[index].load(std::memory_order_acquire) : std::uint16_t{0};
  }
  void set_pkey(std::size_t index, std::uint16_t key) noexcept { pkeys_[index].store(key); }

  /// Counts a received message that was dropped because of its P_Key or Q_Key. Ignores other
  /// reasons.
  void note_drop(reason why) noexcept {
    if (why == reason::partition_mismatch) ++bad_pkeys_;
    if (why == reason::qkey_mismatch) ++bad_qkeys_;
  }
  [[nodiscard]] std::uint32_t bad_pkeys() const noexcept { return bad_pkeys_.load(); }
  [[nodiscard]] std::uint32_t bad_qkeys() const noexcept { return bad_qkeys_.load(); }

 private:
  alignas(64) std::array<std::atomic<bool>, max_ports> up_{true, true, true, true};
  std::atomic<std::uint8_t> count_{1};
  std::atomic<std::uint16_t> lid_{0};
  std::array<std::atomic<std::uint16_t>, max_pkeys> pkeys_{default_partition};
  alignas(64) std::atomic<std::uint32_t> bad_pkeys_{0};
  std::atomic<std::uint32_t> bad_qkeys_{0};
};

}  // namespace verbena::softdev
