// SPDX-License-Identifier: MIT
// Limits the packets that a requester has in flight. Congestion notification packets (CNPs) reduce
// this window as DCQCN reduces a rate: by a fraction that depends on the share of recent round
// trips with a CNP. Without CNPs, the window grows to its maximum again.
#pragma once

#include <cstdint>

namespace verbena::softdev::wire {

/// Does not read a clock: acknowledgements determine the length of a round trip. Threads: one
/// thread at a time.
class congestion_window {
 public:
  /// The initial window is `most` packets, which is also the maximum.
  explicit congestion_window(std::uint32_t most) noexcept
      : most_(most * unit), packets_(most_), target_(most_) {}

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

 private:
  static constexpr std::uint32_t unit = 256;  ///< fixed point: 256 units are one packet

  void end_round(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept;

  std::uint32_t most_;
  std::uint32_t packets_;
  std::uint32_t target_;         ///< each round trip without a CNP halves the distance to it
  std::uint32_t share_ = unit;   ///< DCQCN's alpha; a CNP removes half of this share
  std::uint32_t round_end_ = 0;  ///< the round trip ends when this PSN is acknowledged
  std::uint8_t rounds_without_cnp_ = 0;  ///< round trips since the last CNP
  bool notified_ = false;                ///< a CNP arrived in this round trip
  bool is_active_ = false;               ///< the window or the share has not recovered from a CNP
};

}  // namespace verbena::softdev::wire
