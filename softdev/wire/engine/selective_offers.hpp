// SPDX-License-Identifier: MIT
// The offers of selective repeat that a requester sends.
#pragma once

#include <cstdint>

#include "softdev/core/queue_pair.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/engine/selective_packets.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time.
class selective_offers {
 public:
  explicit selective_offers(bool enabled) noexcept : left_(enabled ? most : 0) {}

  /// Offers selective repeat to the peer of `from`, if the peer has not accepted it. A peer that
  /// does not support it ignores the packet. `expected`: the PSN that the peer expects.
  void put(const queue_pair& from, std::uint32_t expected, packet_output& out) noexcept {
    if (left_ == 0 || from.state() == queue_pair_state::error || !out.has_room()) return;
    --left_;
    selective_payload payload;
    packet made = make_selective_offer(expected, payload);
    address_to_peer(from, made);
    static_cast<void>(out.put(from, made));
  }
  /// The peer has sent a selective acknowledgement.
  void note_accepted() noexcept {
    left_ = 0;
    accepted_ = true;
  }
  [[nodiscard]] bool accepted() const noexcept { return accepted_; }

 private:
  /// The number of offers. Some are lost; most peers do not support selective repeat.
  static constexpr std::uint8_t most = 8;

  std::uint8_t left_;
  bool accepted_ = false;
};

}  // namespace verbena::softdev::wire
