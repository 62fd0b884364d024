// SPDX-License-Identifier: MIT
// Selects the packets that a retransmission sends.
#pragma once

#include <algorithm>
#include <cstdint>

#include "softdev/wire/engine/psn_set.hpp"
#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// Without a selective acknowledgement, a retransmission sends all unacknowledged packets
/// (go-back-N). With one, it sends the packets that the responder lacks. Packets after the last
/// received one can be in flight; a packet that was retransmitted is not sent again until a timeout
/// (`restart`). Threads: one thread at a time.
class retransmission {
 public:
  /// Takes a selective acknowledgement.
  void limit_to_missing(const psn_set& received) noexcept {
    const bool begins = !selective_ || probes_;
    if (begins || psn_distance(begin_, received.first) > 0) begin_ = received.first;
    received_ = received;
    end_ = received.end();
    selective_ = true;
    probes_ = false;
  }
  /// Limits the retransmission to one packet, whose acknowledgement reports what is missing.
  void limit_to(std::uint32_t psn) noexcept {
    received_ = {.first = psn};
    begin_ = psn;
    end_ = psn_plus(psn, 1);
    selective_ = probes_ = true;
  }
  /// After a timeout: sends the packets again that the last selective acknowledgement reported
  /// missing.
  void restart() noexcept { begin_ = received_.first; }
  /// Sends all packets before `end` that the responder lacked when it sent the last selective
  /// acknowledgement. If it has sent none since `limit_to`, sends all packets.
  void restart(std::uint32_t end) noexcept {
    selective_ = selective_ && !probes_;
    begin_ = received_.first;
    end_ = end;
  }
  void select_all() noexcept { selective_ = false; }
  /// Packets before `oldest` are acknowledged.
  void note_acknowledged(std::uint32_t oldest) noexcept {
    if (selective_ && psn_distance(end_, oldest) >= 0) selective_ = false;
  }

  [[nodiscard]] bool selective() const noexcept { return selective_; }
  /// Returns whether a packet that was sent before is sent again.
  [[nodiscard]] bool sends(std::uint32_t psn) const noexcept {
    return !selective_ || (psn_distance(begin_, psn) >= 0 && psn_distance(psn, end_) > 0 &&
                           !received_.contains(psn));
  }
  /// Returns whether `psn` is sent again because of a selective acknowledgement or a timeout.
  [[nodiscard]] bool repeats(std::uint32_t psn, std::uint32_t sent_end) const noexcept {
    return selective_ && psn_distance(psn, sent_end) > 0;
  }
  /// Records that a packet was retransmitted.
  void note_sent(std::uint32_t psn) noexcept {
    if (selective_) begin_ = psn_plus(psn, 1);
  }

 private:
  psn_set received_;
  std::uint32_t begin_ = 0;  ///< the missing packets before this PSN have been retransmitted
  std::uint32_t end_ = 0;
  bool selective_ = false;
  bool probes_ = false;  ///< limited to one packet
};

}  // namespace verbena::softdev::wire
