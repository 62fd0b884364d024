// SPDX-License-Identifier: MIT
// The ring of records from a peer.
#pragma once

#include <cstdint>
#include <optional>

#include "softdev/peers/pair_memory.hpp"
#include "softdev/peers/peer_messages.hpp"
#include "softdev/shm/ring.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, which holds the right to receive.
class incoming_ring {
 public:
  incoming_ring(pair_memory& memory, peer_messages& messages) noexcept
      : memory_(memory), messages_(messages) {}
  incoming_ring(const incoming_ring&) = delete;
  incoming_ring& operator=(const incoming_ring&) = delete;

  /// Begins to use the ring in the peer's pair segment. Call it while pairing.
  void open(std::uint32_t ring_bytes) noexcept {
    consumer_ = ring_consumer(memory_.their_ring(ring_bytes), memory_.theirs().published,
                              memory_.own().consumed_bytes);
  }

  /// Sets `out` to the oldest record without consuming it. Returns ok, empty or corrupt.
  [[nodiscard]] ring_status peek(ring_record& out) noexcept { return consumer_.peek(out); }
  /// See ring_consumer::next_hint.
  [[nodiscard]] std::optional<ring_consumer::hint> next_hint() noexcept {
    return consumer_.next_hint();
  }
  void consume() noexcept {
    consumer_.consume();
    kept_at_ = no_position;
  }
  /// Leaves the oldest record in the ring (back-pressure).
  void keep() noexcept { kept_at_ = consumer_.announced(); }
  [[nodiscard]] bool keeps_record() const noexcept { return kept_at_ != no_position; }
  /// Returns the room of consumed records to the peer; wakes a peer that sleeps and waits for room.
  void end_batch() noexcept;
  /// Returns the number of records that were consumed since the pairing.
  [[nodiscard]] std::uint64_t consumed_records() const noexcept {
    return consumer_.consumed_records();
  }
  /// Returns the number of records that the peer has announced since the pairing. Thread-safe.
  [[nodiscard]] std::uint64_t announced_records() const noexcept {
    return memory_.theirs().published.load(std::memory_order_seq_cst);
  }
  /// Returns ok if the peer announced records that were neither consumed nor present at keep();
  /// otherwise empty or corrupt.
  [[nodiscard]] ring_status check_announced() noexcept;

 private:
  static constexpr std::uint64_t no_position = ~std::uint64_t{0};

  pair_memory& memory_;
  peer_messages& messages_;
  ring_consumer consumer_;
  std::uint64_t kept_at_ = no_position;  ///< announced records at the last keep()
};

}  // namespace verbena::softdev
