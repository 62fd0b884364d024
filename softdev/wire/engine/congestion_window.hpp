// SPDX-License-Identifier: MIT
// How many packets a requester may have in flight. Congestion notification packets (CNPs) reduce
// the number as DCQCN reduces a rate: by a share that depends on how many round trips had a CNP
// lately. Without CNPs, the number returns to its maximum.
#pragma once

#include <cstdint>

namespace verbena::softdev::wire {

/// Pure: the time is that of the acknowledgements. Threads: one thread at a time.
class congestion_window {
 public:
  /// The window begins with its maximum, `most` packets.
  explicit congestion_window(std::uint32_t most) noexcept
      : most_(most * unit), packets_(most_), target_(most_) {}

  /// The packets that may be in flight, at least 1.
  [[nodiscard]] std::uint32_t packets() const noexcept { return packets_ / unit; }
  /// A CNP came. Packets before `oldest_psn` are acknowledged, those before `next_psn` were sent.
  /// The CNPs of one round trip count once.
  void notify(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept;
  /// As `notify`, when packets were acknowledged.
  void acknowledge(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept {
    if (is_active_) end_round(oldest_psn, next_psn);
  }

 private:
  static constexpr std::uint32_t unit = 256;  ///< fixed point, for shares of packets

  void end_round(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept;

  std::uint32_t most_;
  std::uint32_t packets_;
  std::uint32_t target_;           ///< where the window returns to quickly
  std::uint32_t share_ = unit;     ///< DCQCN's alpha: a CNP removes half of this share
  std::uint32_t round_end_ = 0;    ///< the round ends when the packet is acknowledged
  std::uint8_t quiet_rounds_ = 0;  ///< since the last CNP
  bool notified_ = false;          ///< in this round
  bool is_active_ = false;         ///< there were CNPs, and not everything is as at the beginning
};

}  // namespace verbena::softdev::wire
