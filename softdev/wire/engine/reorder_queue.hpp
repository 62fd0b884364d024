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

/// The memory for kept packets of one connection, by the lowest bits of their PSNs.
struct reorder_buffer {
  static constexpr std::size_t capacity = 128;

  std::array<packet_copy, capacity> packets;
  std::array<bool, capacity> used{};
  std::size_t count = 0;
};

/// Whether a connection has another buffer. A connection with a larger window can need several; so
/// that these cannot take all buffers, the pool counts the first ones separately.
enum class buffer_use : std::uint8_t { first, further };

/// The buffers of all connections of a process. A connection has buffers only while a packet is
/// missing, so there are few; each has about 540 KiB. Threads: thread-safe. Allocates when more
/// buffers are in use than ever before.
class reorder_pool {
 public:
  /// The maximum number of buffers of each use.
  static constexpr std::size_t max_buffers = 64;

  /// Returns nullptr if the maximum number of buffers is in use, or if there is no memory.
  [[nodiscard]] reorder_buffer* acquire(buffer_use use = buffer_use::first) noexcept;
  /// Takes back a buffer without packets.
  void release(reorder_buffer* which, buffer_use use = buffer_use::first) noexcept;

 private:
  std::mutex mutex_;
  std::array<std::unique_ptr<reorder_buffer>, 2 * max_buffers> free_;
  std::size_t free_count_ = 0;
  std::array<std::size_t, 2> in_use_{};
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
  /// The PSNs that are kept.
  struct range {
    std::uint32_t expected = 0;  ///< of the missing packet
    std::uint32_t reach = 0;     ///< PSNs from the missing one on, at most psn_set::capacity
  };
  /// Copies a packet, which is after the missing one.
  [[nodiscard]] added add(const packet& what, const range& within, std::uint32_t mtu) noexcept;
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Returns the kept packet with this PSN, or nullptr. It is valid until it is removed.
  [[nodiscard]] const packet* find(std::uint32_t psn) const noexcept;
  /// Removes all packets before `psn`.
  void remove_before(std::uint32_t psn) noexcept;
  void clear() noexcept;
  /// Returns the PSNs of the kept packets. `expected` is the PSN of the missing packet.
  [[nodiscard]] psn_set received(std::uint32_t expected) const noexcept;

 private:
  static constexpr std::size_t most_buffers = psn_set::capacity / reorder_buffer::capacity;

  [[nodiscard]] std::size_t buffer_of(std::uint32_t psn) const noexcept {
    return reach_ <= reorder_buffer::capacity ? 0 : psn / reorder_buffer::capacity % most_buffers;
  }
  [[nodiscard]] reorder_buffer* make_buffer(std::uint32_t psn) noexcept;
  void give_back(std::size_t index) noexcept;

  reorder_pool& pool_;
  std::array<reorder_buffer*, most_buffers> buffers_{};
  std::size_t buffer_count_ = 0;
  std::uint32_t reach_ = 0;  ///< that of the first packet that was kept
  std::size_t count_ = 0;
  std::uint32_t end_ = 0;  ///< the PSN after the last kept packet
};

}  // namespace verbena::softdev::wire
