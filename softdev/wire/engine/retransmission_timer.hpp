// SPDX-License-Identifier: MIT
// Determines when unacknowledged packets are retransmitted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "softdev/core/types.hpp"
#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// The timer of a requester. It expires at the ACK timeout of the queue pair, or earlier, after the
/// usual round-trip time: a retransmission before the ACK timeout recovers sooner from a loss that
/// no later packet reveals, such as that of the last packet of a message, or of a NAK. Threads: one
/// thread at a time.
class retransmission_timer {
 public:
  /// Limits of retransmissions before the ACK timeout: their number without progress, and the
  /// minimum of the early timeout.
  static constexpr std::uint8_t max_early = 4;
  static constexpr time_ns least_early_timeout = 200'000;

  [[nodiscard]] bool runs() const noexcept { return deadline_ != never; }
  [[nodiscard]] time_ns deadline() const noexcept { return deadline_; }
  /// True if the deadline is before the ACK timeout.
  [[nodiscard]] bool is_early() const noexcept { return is_early_; }
  void stop() noexcept { deadline_ = never; }
  /// `early_count`: early retransmissions since the last progress.
  void start(time_ns now, time_ns ack_timeout, std::uint8_t early_count) noexcept {
    const time_ns early = early_count < max_early ? early_timeout() : never;
    is_early_ = early < ack_timeout;
    deadline_ = now + std::min(early, ack_timeout);
  }
  /// Doubles the early timeout until the next measurement.
  void back_off() noexcept {
    if (backoff_ < max_backoff) ++backoff_;
  }

  // Measurement of the round-trip time.
  [[nodiscard]] bool measures() const noexcept { return started_ != never; }
  /// Starts a measurement, which ends when the packets before `end_psn` are acknowledged.
  void measure(time_ns now, std::uint32_t end_psn) noexcept {
    started_ = now;
    end_psn_ = end_psn;
    of_repetition_ = false;
  }
  /// Starts a measurement of a repeated READ. Its response can follow a long response to the first
  /// READ, so the measurement only reduces the backoff.
  void measure_repetition(time_ns now, std::uint32_t end_psn) noexcept {
    measure(now, end_psn);
    of_repetition_ = true;
  }
  /// True if the acknowledgement of all packets before `oldest` ends the measurement.
  [[nodiscard]] bool measures_before(std::uint32_t oldest) const noexcept {
    return measures() && psn_distance(end_psn_, oldest) >= 0;
  }
  /// Returns the round-trip time, or 0 if it was that of a repeated READ.
  time_ns end_measurement(time_ns now) noexcept {
    const time_ns sample = std::max<time_ns>(now - started_, 1);
    started_ = never;
    if (!of_repetition_) {
      add(sample);
      return sample;
    }
    while (backoff_ > 0 && least_early() << (backoff_ - 1U) >= sample) --backoff_;
    return 0;
  }
  /// Returns the usual round-trip time; 0: unknown.
  [[nodiscard]] time_ns round_trip() const noexcept { return smoothed_; }
  /// Returns the shortest round-trip time since the last `forget_least`; `never` if unknown.
  [[nodiscard]] time_ns least_round_trip() const noexcept { return least_; }
  void forget_least() noexcept { least_ = never; }
  /// Abandons a measurement that the packet delays, or whose ACK can be for both transmissions.
  void note_retransmitted(std::uint32_t psn) noexcept {
    if (measures() && psn_distance(psn, end_psn_) > 0) started_ = never;
  }

 private:
  static constexpr std::uint8_t max_backoff = 10;

  /// Returns the early timeout without backoff.
  [[nodiscard]] time_ns least_early() const noexcept {
    return std::max(smoothed_ + 4 * deviation_, least_early_timeout);
  }
  /// Returns `never` if the round-trip time is unknown.
  [[nodiscard]] time_ns early_timeout() const noexcept {
    if (smoothed_ == 0) return never;
    return least_early() << backoff_;
  }
  /// Adds a sample as TCP does (RFC 6298), and ends the exponential backoff.
  void add(time_ns sample) noexcept {
    backoff_ = 0;
    least_ = std::min(least_, sample);
    if (smoothed_ == 0) {
      smoothed_ = sample;
      deviation_ = sample / 2;
      return;
    }
    const time_ns apart = sample > smoothed_ ? sample - smoothed_ : smoothed_ - sample;
    deviation_ = (3 * deviation_ + apart) / 4;
    smoothed_ = (7 * smoothed_ + sample) / 8;
  }

  time_ns deadline_ = never;
  time_ns started_ = never;  ///< the start of the current measurement
  time_ns smoothed_ = 0;     ///< the round-trip time; 0: unknown
  time_ns deviation_ = 0;
  time_ns least_ = never;
  std::uint32_t end_psn_ = 0;
  std::uint8_t backoff_ = 0;  ///< doublings of the early timeout since the last sample
  bool is_early_ = false;
  bool of_repetition_ = false;  ///< the current measurement is of a repeated READ
};

}  // namespace verbena::softdev::wire
