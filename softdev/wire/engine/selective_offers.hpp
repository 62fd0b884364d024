// SPDX-License-Identifier: MIT
// The offers of selective repeat and of larger windows that a requester sends.
#pragma once

#include <cstdint>

#include "softdev/core/queue_pair.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/engine/selective_packets.hpp"

namespace verbena::softdev::wire {

/// Which offers a requester sends.
struct offer_options {
  bool selective_repeat = true;
  bool larger_windows = true;
};

/// Threads: one thread at a time.
class selective_offers {
 public:
  explicit selective_offers(const offer_options& enabled) noexcept
      : left_(enabled.selective_repeat ? most : 0),
        windows_left_(enabled.selective_repeat && enabled.larger_windows ? most_windows : 0) {}

  /// Offers selective repeat to the peer of `from`, if the peer has not accepted it. A peer that
  /// does not support it ignores the packet. `expected`: the PSN that the peer expects.
  void put(const queue_pair& from, std::uint32_t expected, packet_output& out) noexcept {
    if (left_ == 0 || from.state() == queue_pair_state::error || !out.has_room()) return;
    --left_;
    selective_payload payload;
    put(from, make_selective_offer(expected, payload), out);
  }
  /// Offers a larger window to the peer of `from`, unless the peer has granted one.
  void put_window(const queue_pair& from, std::uint32_t expected, packet_output& out) noexcept {
    if (windows_left_ == 0 || from.state() == queue_pair_state::error || !out.has_room()) return;
    --windows_left_;
    selective_payload payload;
    put(from, make_window_offer(expected, payload), out);
  }
  /// The peer has sent a selective acknowledgement.
  void note_accepted() noexcept {
    left_ = 0;
    accepted_ = true;
  }
  /// The peer has granted a larger window, and uses selective repeat.
  void note_granted() noexcept {
    left_ = windows_left_ = 0;
    granted_ = true;
  }
  /// Returns whether the peer has sent a selective acknowledgement. Only then are parts of a READ
  /// response requested again, not after a grant: if most of a response is lost, repeating the
  /// rest of the response is faster.
  [[nodiscard]] bool accepted() const noexcept { return accepted_; }
  /// Returns whether the peer reports missing packets.
  [[nodiscard]] bool peer_reports() const noexcept { return accepted_ || granted_; }

 private:
  /// The number of offers. Some are lost; most peers do not support selective repeat.
  static constexpr std::uint8_t most = 8;
  static constexpr std::uint8_t most_windows = 4;

  static void put(const queue_pair& from, packet made, packet_output& out) noexcept {
    address_to_peer(from, made);
    static_cast<void>(out.put(from, made));
  }

  std::uint8_t left_;
  std::uint8_t windows_left_;
  bool accepted_ = false;
  bool granted_ = false;
};

}  // namespace verbena::softdev::wire
