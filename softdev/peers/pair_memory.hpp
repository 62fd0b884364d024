// SPDX-License-Identifier: MIT
// The shared memory of this process and a peer. Each side owns a pair segment, which the other side
// maps read-only. Its header contains words for the other side; the ring of records to the other
// side follows.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/shm/sealed_memory.hpp"
#include "softdev/shm/segment.hpp"
#include "softdev/shm/segment_layout.hpp"

namespace verbena::softdev {

/// Threads: immutable once paired. Before that, only the service uses it.
class pair_memory {
 public:
  /// Creates this process's pair segment unless it exists. Returns false if descriptors or memory
  /// are exhausted.
  [[nodiscard]] bool create(std::uint32_t ring_bytes);
  /// The descriptor of this process's segment, to be sent to the peer. -1 after close_descriptor().
  [[nodiscard]] int descriptor() const noexcept { return own_fd_.get(); }
  void close_descriptor() noexcept { own_fd_.reset(); }
  /// Stores the mappings of the memory that the peer has sent.
  void set_theirs(peer_segment segment, mapping pair, mapping doorbell) noexcept;
  [[nodiscard]] bool has_theirs() const noexcept { return their_map_.size() != 0; }

  [[nodiscard]] pair_header& own() const noexcept { return *own_map_.at<pair_header>(0); }
  [[nodiscard]] const pair_header& theirs() const noexcept {
    return *their_map_.at<pair_header>(0);
  }
  [[nodiscard]] std::span<std::byte> own_ring(std::uint32_t bytes) const noexcept {
    return {own_map_.data() + pair_ring_offset, bytes};
  }
  [[nodiscard]] std::span<const std::byte> their_ring(std::uint32_t bytes) const noexcept {
    return {their_map_.data() + pair_ring_offset, bytes};
  }
  /// The peer's public segment.
  [[nodiscard]] const peer_segment& segment() const noexcept { return segment_; }
  [[nodiscard]] doorbell_page& doorbell() const noexcept { return *doorbell_.at<doorbell_page>(0); }

  // Lanes: words that are odd while a thread is inside an active section.
  [[nodiscard]] const shared_u64& own_lane(std::uint32_t lane) const noexcept {
    return own().lanes[lane].word;
  }
  [[nodiscard]] const shared_u64& their_lane(std::uint32_t lane) const noexcept {
    return theirs().lanes[lane].word;
  }
  /// A bit for each lane that a thread of this process, or of the peer, has ever entered.
  [[nodiscard]] std::uint64_t own_lanes() const noexcept {
    return own().lanes_used.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] std::uint64_t their_lanes() const noexcept {
    return theirs().lanes_used.load(std::memory_order_seq_cst);
  }
  /// Calls `visit(lane)` for each bit of `used`.
  template <class Visitor>
  static void for_each_lane(std::uint64_t used, Visitor&& visit) {
    for (used &= ~std::uint64_t{0} >> (64 - lane_count); used != 0; used &= used - 1)
      visit(static_cast<std::uint32_t>(std::countr_zero(used)));
  }

 private:
  unique_fd own_fd_;
  mapping own_map_;
  mapping their_map_;
  mapping doorbell_;
  peer_segment segment_;
};

}  // namespace verbena::softdev
