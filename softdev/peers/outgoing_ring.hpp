// SPDX-License-Identifier: MIT
// The ring of records to a peer. Its producer informs the peer that there are records, or that it
// waits for room.
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/core/biased_lock.hpp"
#include "softdev/peers/pair_memory.hpp"
#include "softdev/peers/peer_messages.hpp"
#include "softdev/peers/slot_set.hpp"
#include "softdev/peers/wake_channels.hpp"
#include "softdev/shm/ring.hpp"

namespace verbena::softdev {

/// When the progress thread of a sleeping peer must receive what is announced.
enum class attention : std::uint8_t {
  at_once,
  /// At its next check, if it checks (sleep_bits::checks): a thread of the peer's program receives
  /// the records earlier, or no thread waits for them.
  at_check,
};

/// Threads: one thread at a time, which holds lock(), unless a function states otherwise.
class outgoing_ring {
 public:
  struct options {
    pair_memory& memory;
    peer_messages& messages;
    slot_set& full_rings;  ///< `slot` is added when the ring is full
    std::uint32_t slot;    ///< of the peer
    std::uint32_t own_slot;
  };
  explicit outgoing_ring(const options& how) noexcept : how_(how) {}
  outgoing_ring(const outgoing_ring&) = delete;
  outgoing_ring& operator=(const outgoing_ring&) = delete;

  /// Begins to use the ring in this process's pair segment. Call it while pairing.
  void open(std::uint32_t ring_bytes) noexcept;

  [[nodiscard]] biased_lock& lock() noexcept { return lock_; }
  [[nodiscard]] ring_producer::reservation try_reserve(std::uint16_t type, std::uint32_t bytes,
                                                       std::uint32_t spare) noexcept {
    const bool waits = how_.memory.own().wants_space.load(std::memory_order_relaxed) != 0;
    // Return it directly: a copy would wait for the stores of the members.
    if (!waits && producer_.fits(bytes, spare)) [[likely]]
      return producer_.try_reserve(type, bytes, spare);
    return reserve_slowly(type, bytes, spare);
  }
  void commit() noexcept { producer_.commit(); }
  /// Returns false if the peer's progress thread sleeps until its next check.
  bool announce(attention wanted) noexcept;
  [[nodiscard]] std::uint64_t position() const noexcept { return producer_.position(); }

  // Thread-safe.
  [[nodiscard]] std::uint32_t max_record() const noexcept { return max_record_; }
  [[nodiscard]] bool has_room(std::uint32_t bytes) const noexcept {
    return producer_.has_room(bytes);
  }
  [[nodiscard]] bool has_handled(std::uint64_t position) const noexcept {
    return how_.memory.theirs().consumed_bytes.load(std::memory_order_acquire) >= position;
  }
  /// Returns whether the last reservation failed because the ring was full.
  [[nodiscard]] bool is_full() const noexcept {
    return full_at_.load(std::memory_order_acquire) != no_position;
  }
  /// Returns false if the ring was full and the peer has consumed nothing since.
  [[nodiscard]] bool may_have_room() const noexcept;

  /// Returns true once after a reservation succeeded in a ring that was full. From then on, room
  /// that the peer returns is not reported: the caller informs the other senders that wait for it.
  [[nodiscard]] bool take_room_used() noexcept {
    return room_used_.load(std::memory_order_relaxed) &&
           room_used_.exchange(false, std::memory_order_relaxed);
  }

  /// Returns true if the peer has returned room to a full ring, once for each return. The caller
  /// holds the right to receive.
  [[nodiscard]] bool take_returned_room() noexcept;

 private:
  static constexpr std::uint64_t no_position = ~std::uint64_t{0};

  /// The slow path of `try_reserve`: the ring is full or was full before.
  [[nodiscard]] ring_producer::reservation reserve_slowly(std::uint16_t type, std::uint32_t bytes,
                                                          std::uint32_t spare) noexcept;

  [[nodiscard]] bool is_filling() const noexcept;

  const options how_;
  biased_lock lock_;
  ring_producer producer_;
  std::uint32_t max_record_ = 0;
  std::uint32_t max_unseen_ = 0;         ///< the most bytes that may wait for a check
  std::uint32_t full_spare_ = 0;         ///< the largest `spare` of a failed reservation
  std::atomic<bool> room_used_ = false;  ///< a reservation succeeded after the ring was full
  sleeper_signal sleeper_;
  std::atomic<std::uint64_t> full_at_ = no_position;  ///< consumer's position when it was full
  std::uint64_t room_reported_ = no_position;  ///< consumer's position when room was reported
};

}  // namespace verbena::softdev
