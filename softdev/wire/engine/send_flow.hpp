// SPDX-License-Identifier: MIT
// What limits the packets that a requester sends: the congestion window, the peer's memory for
// packets after a missing one, and, with a larger window, a pace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "softdev/core/types.hpp"
#include "softdev/wire/engine/congestion_window.hpp"
#include "softdev/wire/engine/retransmission_timer.hpp"
#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time.
class send_flow {
 public:
  /// The number of packets in flight with any peer. The kernel's rxe has the same limit.
  static constexpr std::uint32_t base_window = 128;

  [[nodiscard]] congestion_window& congestion() noexcept { return congestion_; }

  /// Sets the PSN before which all packets that request an acknowledgement are acknowledged.
  void begin(std::uint32_t psn) noexcept { ack_req_end_ = psn; }
  /// The peer keeps `reach` PSNs from a missing packet on. From now on, packets are paced.
  void enlarge(std::uint32_t reach) noexcept {
    congestion_.raise_maximum(reach);
    reach_ = std::max(reach_, reach);
  }
  /// True if the peer has granted a larger window. A burst of such a window, for example after the
  /// loss of one packet, would fill the queues of the path. Therefore packets leave at the rate of
  /// one window in 4/5 of a round trip. A pause is long enough for several packets.
  [[nodiscard]] bool paces() const noexcept { return reach_ > base_window; }
  /// A position in the stream of packets.
  struct position {
    std::uint32_t oldest = 0;    ///< the first unacknowledged PSN
    std::uint32_t psn = 0;       ///< the next one to be sent
    std::uint32_t received = 0;  ///< packets from `oldest` on that the peer reports as received
  };
  /// Returns how many packets, beginning with `at.psn`, may be sent. `now` and `round_trip` have no
  /// effect unless paces().
  [[nodiscard]] std::uint32_t room(const position& at, time_ns now, time_ns round_trip) noexcept {
    const std::int32_t ahead = psn_distance(at.oldest, at.psn);
    const auto window = static_cast<std::int32_t>(congestion_.packets());
    const std::int32_t room =
        std::min(window + (paces() ? static_cast<std::int32_t>(at.received) : 0),
                 as_signed(reach_)) -
        ahead;
    if (room <= 0) {
      congestion_.note_limiting();
      return 0;
    }
    if (!paces()) return as_unsigned(room);
    interval_ = round_trip * 4 / 5 / congestion_.packets();
    return std::min(as_unsigned(room), paced_room(now));
  }
  /// Records that a packet was sent.
  void note_put(time_ns now) noexcept { due_ = std::max(due_, now) + interval_; }
  /// Returns when the next packets may be sent; `never` if none waits for that.
  [[nodiscard]] time_ns pause_end() const noexcept { return pause_end_; }
  void end_pause(time_ns now) noexcept {
    if (pause_end_ <= now) pause_end_ = never;
  }
  /// Records that the packets before `end` have been sent, and that the last one requests an
  /// acknowledgement.
  void note_ack_requested(std::uint32_t end) noexcept { ack_req_end_ = end; }
  /// Returns whether no packet in flight requests an acknowledgement.
  [[nodiscard]] bool is_quiet(std::uint32_t oldest) const noexcept {
    return psn_distance(oldest, ack_req_end_) <= 0;
  }
  /// Returns whether the packet that fills the window requests an acknowledgement. It does if no
  /// packet in flight does, or if half of the window was sent since the last one that does. More
  /// requests would result in shorter trains (packet_sender).
  [[nodiscard]] bool must_request_ack(std::uint32_t oldest, std::uint32_t psn) const noexcept {
    return is_quiet(oldest) ||
           psn_distance(ack_req_end_, psn) >= static_cast<std::int32_t>(congestion_.packets() / 2);
  }
  /// Processes a measured round-trip time; 0: none. Returns whether a larger maximum would help.
  [[nodiscard]] bool note_round_trip(time_ns sample, const retransmission_timer& timer,
                                     std::uint32_t oldest) noexcept {
    return sample != 0 && congestion_.note_round_trip(sample, timer.least_round_trip(), oldest);
  }
  /// All packets are acknowledged.
  void note_idle(time_ns now) noexcept { idle_since_ = now; }
  [[nodiscard]] bool is_idle() const noexcept { return idle_since_ != never; }
  /// A packet is sent, and no other is in flight. After an idle time of a round trip or more, the
  /// window is the base again: a larger one was right for the state of the path at that time. The
  /// least round-trip time is measured again, because the route can have become longer.
  /// Precondition: is_idle().
  void end_idle(time_ns now, retransmission_timer& timer) noexcept {
    if (now - std::exchange(idle_since_, never) < timer.round_trip()) return;
    congestion_.restart();
    timer.forget_least();
  }

  bool waits_for_room = false;  ///< the output has no room

 private:
  static constexpr std::uint32_t least_burst = 32;
  static constexpr time_ns least_pause = 125'000;

  [[nodiscard]] static std::int32_t as_signed(std::uint32_t value) noexcept {
    return static_cast<std::int32_t>(value);
  }
  [[nodiscard]] static std::uint32_t as_unsigned(std::int32_t value) noexcept {
    return static_cast<std::uint32_t>(value);
  }
  /// Returns how many packets the pace permits. If none, begins a pause.
  [[nodiscard]] std::uint32_t paced_room(time_ns now) noexcept {
    if (interval_ == 0) return psn_mask;
    const time_ns burst = std::max(least_burst * interval_, 2 * least_pause);
    const time_ns ahead = due_ > now ? due_ - now : 0;
    if (ahead + interval_ <= burst)
      return static_cast<std::uint32_t>(std::min<time_ns>((burst - ahead) / interval_, psn_mask));
    pause_end_ = due_ - burst / 2;
    return 0;
  }

  congestion_window congestion_{base_window};
  std::uint32_t ack_req_end_ = 0;  ///< the PSN after the last packet that requests an ACK
  std::uint32_t reach_ = base_window;
  time_ns interval_ = 0;       ///< between two packets; 0: unknown
  time_ns due_ = 0;            ///< when the next packet is due, with this interval
  time_ns pause_end_ = never;  ///< when the pace permits further packets
  time_ns idle_since_ = never;
};

}  // namespace verbena::softdev::wire
