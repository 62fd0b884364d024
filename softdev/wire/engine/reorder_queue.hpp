// SPDX-License-Identifier: MIT
// Keeps the packets that a responder receives while an earlier packet is missing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "softdev/wire/engine/psn_set.hpp"
#include "softdev/wire/packet.hpp"
#include "softdev/wire/packet_copy.hpp"

namespace verbena::softdev::wire {

/// The memory for the kept packets of one connection, by the lowest bits of their PSNs.
struct reorder_buffer {
  static constexpr std::size_t capacity = psn_set::capacity;

  std::array<packet_copy, capacity> packets;
  std::array<bool, capacity> used{};
};

/// The buffers of all connections of a process. A connection has one only while a packet is
/// missing, so there are few; each has about 540 KiB. Threads: thread-safe. Allocates when more
/// buffers are in use than ever before.
class reorder_pool {
 public:
  static constexpr std::size_t max_buffers = 64;

  /// Returns nullptr if the maximum number of buffers is in use, or if there is no memory.
  [[nodiscard]] reorder_buffer* acquire() noexcept;
  /// Takes back a buffer without packets.
  void release(reorder_buffer* which) noexcept;

 private:
  std::mutex mutex_;
  std::array<std::unique_ptr<reorder_buffer>, max_buffers> free_;
  std::size_t free_count_ = 0;
  std::size_t made_ = 0;
};

/// The kept packets of one connection. Threads: one thread at a time.
class reorder_queue {
 public:
  /// `pool` outlives the queue.
  explicit reorder_queue(reorder_pool& pool) noexcept : pool_(pool) {}
  ~reorder_queue() { clear(); }
  reorder_queue(const reorder_queue&) = delete;
  reorder_queue& operator=(const reorder_queue&) = delete;

  enum class added : std::uint8_t {
    refused,     ///< too far ahead, or no buffer
    kept,        ///< or already there
    reveals_gap  ///< kept; at least one packet directly before it has not been received
  };
  /// Copies a packet. `expected` is the PSN of the missing packet, and the packet is after it.
  [[nodiscard]] added add(const packet& what, std::uint32_t expected, std::uint32_t mtu) noexcept;
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Returns the kept packet with this PSN, or nullptr. It is valid until it is removed.
  [[nodiscard]] const packet* find(std::uint32_t psn) const noexcept;
  /// Removes all packets before `psn`.
  void remove_before(std::uint32_t psn) noexcept;
  void clear() noexcept;
  /// Returns the PSNs of the kept packets. `expected` is the PSN of the missing packet.
  [[nodiscard]] psn_set received(std::uint32_t expected) const noexcept;

 private:
  void give_back() noexcept;

  reorder_pool& pool_;
  reorder_buffer* buffer_ = nullptr;
  std::size_t count_ = 0;
  std::uint32_t end_ = 0;  ///< the PSN after the last kept packet
};

}  // namespace verbena::softdev::wire
