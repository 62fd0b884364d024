// SPDX-License-Identifier: MIT
// Limits the packets that a requester has in flight. Congestion notification packets (CNPs) reduce
// the limit by the rule with which DCQCN reduces a rate: by a fraction that depends on how many
// recent round trips had a CNP. Without CNPs, the limit rises to its maximum again.
#pragma once

#include <cstdint>

namespace verbena::softdev::wire {

/// Has no clock: acknowledgements measure the time. Threads: one thread at a time.
class congestion_window {
 public:
  /// The window is `most` packets at first.
  explicit congestion_window(std::uint32_t most) noexcept
      : most_(most * unit), packets_(most_), target_(most_) {}

  /// The packets that may be in flight, at least 1.
  [[nodiscard]] std::uint32_t packets() const noexcept { return packets_ / unit; }
  /// Takes a CNP. Packets before `oldest_psn` are acknowledged; packets before `next_psn` were
  /// sent. Further CNPs of the same round trip have no effect. Returns whether it has one.
  bool notify(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept;
  /// Takes an acknowledgement. The parameters are those of `notify`.
  void acknowledge(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept {
    if (is_active_) end_round(oldest_psn, next_psn);
  }

 private:
  static constexpr std::uint32_t unit = 256;  ///< fixed point, for shares of packets

  void end_round(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept;

  std::uint32_t most_;
  std::uint32_t packets_;
  std::uint32_t target_;                 ///< the window halves its distance to it in a round trip
  std::uint32_t share_ = unit;           ///< DCQCN's alpha: a CNP removes half of this share
  std::uint32_t round_end_ = 0;          ///< the round ends when the packet is acknowledged
  std::uint8_t rounds_without_cnp_ = 0;  ///< since the last CNP
  bool notified_ = false;                ///< in this round
  bool is_active_ = false;  ///< a CNP came, and the window or the share has not recovered
};

}  // namespace verbena::softdev::wire
