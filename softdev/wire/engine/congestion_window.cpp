// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/congestion_window.hpp"

#include <algorithm>
#include <utility>

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
/// Beyond its base, the window grows by this number of packets less those that wait in queues.
constexpr std::uint32_t growth = 32;
/// If more packets wait, the window shrinks.
constexpr std::uint32_t most_queued = 2 * growth;

}  // namespace

bool congestion_window::notify(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept {
  acknowledge(oldest_psn, next_psn);
  if (notified_) return false;
  if (!is_active_) share_ = unit;
  is_active_ = true;
  notified_ = true;
  rounds_without_cnp_ = 0;
  round_end_ = next_psn;
  const std::uint32_t before = packets_;
  packets_ = std::max(packets_ - packets_ * share_ / unit / 2, unit);
  // The part that exceeds the base grows slowly again.
  target_ = std::min(before, std::max(packets_, base_));
  share_ += (unit - share_) / share_weight;
  return packets_ < before;
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
  else if (target_ < base_)
    target_ = std::min(target_ + unit, base_);
  // Rounded up, so that the window reaches its target.
  packets_ = (packets_ + target_ + 1) / 2;
  is_active_ = packets_ < base_ || share_ >= least_share;
}

bool congestion_window::note_round_trip(time_ns sample, time_ns least,
                                        std::uint32_t oldest_psn) noexcept {
  const bool limits = std::exchange(limits_, false);
  recovers_ = recovers_ && psn_distance(loss_end_, oldest_psn) < 0;
  const auto queued = static_cast<std::uint32_t>(packets() * (sample - least) / sample);
  if (queued > most_queued && is_above_base()) {
    packets_ = target_ = std::max(packets_ - (queued - growth) * unit, base_);
    return false;
  }
  const bool was_notified = is_active_ && rounds_without_cnp_ < fast_recovery_rounds;
  if (!limits || recovers_ || was_notified || packets_ < base_ || queued >= growth) return false;
  if (packets_ == most_) return true;
  packets_ = target_ = std::min(packets_ + (growth - queued) * unit, most_);
  return false;
}

void congestion_window::note_loss(std::uint32_t oldest_psn, std::uint32_t next_psn) noexcept {
  if (recovers_ && psn_distance(loss_end_, oldest_psn) < 0) return;
  recovers_ = true;
  loss_end_ = next_psn;
  if (!is_above_base()) return;
  packets_ = target_ = std::max(packets_ / 2, base_);
}

}  // namespace verbena::softdev::wire
