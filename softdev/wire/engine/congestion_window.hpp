// SPDX-License-Identifier: MIT
// Limits the packets that a requester has in flight. Congestion notification packets (CNPs) reduce
// this window as DCQCN reduces a rate: by a fraction that depends on the share of recent round
// trips with a CNP. Without CNPs, the window grows to its base again. Between soft0 devices it can
// grow beyond the base, while it limits the sender and neither loss nor a longer round trip shows
// that a queue of the path grows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "softdev/core/types.hpp"

namespace verbena::softdev::wire {

/// Does not read a clock: acknowledgements determine the length of a round trip. Threads: one
/// thread at a time.
class congestion_window {
 public:
  /// The initial window is `base` packets, which is also the maximum until it is raised.
  explicit congestion_window(std::uint32_t base) noexcept
      : base_(base * unit), most_(base_), packets_(base_), target_(base_) {}

  void raise_maximum(std::uint32_t most) noexcept { most_ = std::max(most_, most * unit); }
  [[nodiscard]] bool is_above_base() const noexcept { return packets_ > base_; }

  /// Returns the number of packets that may be in flight; at least 1.
  [[nodiscard]] std::uint32_t packets() const noexcept { return packets_ / unit; }
  /// Processes a CNP. Packets before `oldest_psn` are acknowledged; packets before `next_psn` were
  /// sent. Only the first CNP of a round trip has an effect. Returns whether the window has become
  /// smaller.
  bool notify(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept;
  /// Processes an acknowledgement. The parameters are those of `notify`.
  void acknowledge(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept {
    if (is_active_) end_round(oldest_psn, next_psn);
  }
  /// Records that the window delays packets. Without this, it does not grow.
  void note_limiting() noexcept { limits_ = true; }
  /// Processes a measured round-trip time; `least` is the shortest one, that of an empty path. The
  /// difference shows how many packets of the window wait in queues: the window grows by less the
  /// more there are, and shrinks to its base if there are many (as TCP Vegas). Called about once in
  /// each round trip. Returns whether only the maximum limits the window.
  [[nodiscard]] bool note_round_trip(time_ns sample, time_ns least,
                                     std::uint32_t oldest_psn) noexcept;
  /// Packets were lost. Halves the part of the window that exceeds the base, but at most once in a
  /// round trip.
  void note_loss(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept;
  /// Returns to the base, for example after an idle time: the path can have changed.
  void restart() noexcept {
    packets_ = std::min(packets_, base_);
    target_ = std::min(target_, base_);
  }

 private:
  static constexpr std::uint32_t unit = 256;  ///< fixed point: 256 units are one packet

  void end_round(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept;

  const std::uint32_t base_;
  std::uint32_t most_;
  std::uint32_t packets_;
  std::uint32_t target_;         ///< each round trip without a CNP halves the distance to it
  std::uint32_t share_ = unit;   ///< DCQCN's alpha; a CNP removes half of this share
  std::uint32_t round_end_ = 0;  ///< the round trip ends when this PSN is acknowledged
  std::uint8_t rounds_without_cnp_ = 0;  ///< round trips since the last CNP
  bool notified_ = false;                ///< a CNP arrived in this round trip
  bool is_active_ = false;               ///< the window or the share has not recovered from a CNP
  bool limits_ = false;                  ///< the window has delayed packets
  bool recovers_ = false;                ///< the packets before `loss_end_` are not acknowledged
  std::uint32_t loss_end_ = 0;           ///< the PSN after the packets of a round trip with a loss
};

}  // namespace verbena::softdev::wire
