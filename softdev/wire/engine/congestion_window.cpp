// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/congestion_window.hpp"

#include <algorithm>

#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {
namespace {

/// The number of round trips in which the window halves its distance to the target before the
/// target grows.
constexpr std::uint8_t fast_recovery_rounds = 5;
/// Each round trip moves the share by 1/16 of its distance to 0 or 1.
constexpr std::uint32_t share_weight = 16;
/// A smaller share (in 1/256) counts as 0.
constexpr std::uint32_t least_share = share_weight;

}  // namespace

bool congestion_window::notify(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept {
  acknowledge(oldest_psn, next_psn);
  if (notified_) return false;
  if (!is_active_) share_ = unit;
  is_active_ = true;
  notified_ = true;
  rounds_without_cnp_ = 0;
  round_end_ = next_psn;
  target_ = packets_;
  packets_ = std::max(packets_ - packets_ * share_ / unit / 2, unit);
  share_ += (unit - share_) / share_weight;
  return packets_ < target_;
}

void congestion_window::end_round(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept {
  if (psn_distance(round_end_, oldest_psn) <= 0) return;
  round_end_ = next_psn;
  if (notified_) {
    notified_ = false;
    return;
  }
  share_ -= share_ / share_weight;
  if (rounds_without_cnp_ < fast_recovery_rounds)
    ++rounds_without_cnp_;
  else
    target_ = std::min(target_ + unit, most_);
  // Rounded up, so that the window reaches its target.
  packets_ = (packets_ + target_ + 1) / 2;
  is_active_ = packets_ < most_ || share_ >= least_share;
}

}  // namespace verbena::softdev::wire
