// SPDX-License-Identifier: MIT
// Selects the packets that a retransmission sends.
#pragma once

#include <algorithm>
#include <cstdint>

#include "softdev/wire/engine/psn_set.hpp"
#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// Go-back-N: after a loss without a report, all unacknowledged packets. With a selective
/// acknowledgement, the packets that the responder lacks; packets after the last received one can
/// be in flight. A packet is retransmitted once, until the next loss or timeout. Threads: one
/// thread at a time.
class retransmission {
 public:
  /// Selects all packets from `oldest` to `end`.
  void select_all(std::uint32_t oldest, std::uint32_t end) noexcept {
    received_ = {.first = oldest};
    begin_ = oldest;
    end_ = end;
    reported_ = probes_ = false;
  }
  /// Takes a selective acknowledgement. Packets before `sent_end` were sent.
  void limit_to_missing(const psn_set& received, std::uint32_t sent_end) noexcept {
    const bool continues = reported_ && !probes_;
    begin_ = continues ? later_psn(begin_, received.first) : received.first;
    received_ = received;
    end_ = received.end();
    if (psn_distance(sent_end, end_) > 0) end_ = sent_end;
    reported_ = true;
    probes_ = false;
  }
  /// Selects one packet, whose acknowledgement reports what is missing.
  void limit_to(std::uint32_t psn) noexcept {
    select_all(psn, psn_plus(psn, 1));
    reported_ = probes_ = true;
  }
  /// Selects again the packets that the last selective acknowledgement reported missing.
  void restart() noexcept { begin_ = received_.first; }
  /// Packets before `oldest` are acknowledged.
  void note_acknowledged(std::uint32_t oldest) noexcept {
    if (psn_distance(end_, oldest) < 0) return;
    begin_ = end_ = oldest;
    reported_ = false;
  }

  /// True if a selective acknowledgement, or a probe for one, determines the packets.
  [[nodiscard]] bool is_selective() const noexcept { return reported_; }
  /// True if one packet is selected, as a probe.
  [[nodiscard]] bool probes() const noexcept { return probes_; }
  /// Returns whether a packet that was sent before is sent again.
  [[nodiscard]] bool sends(std::uint32_t psn) const noexcept {
    return psn_distance(begin_, psn) >= 0 && psn_distance(psn, end_) > 0 &&
           !received_.contains(psn);
  }
  /// Returns whether the last selective acknowledgement lists the packet as received after a gap.
  [[nodiscard]] bool was_received(std::uint32_t psn) const noexcept {
    return reported_ && psn_distance(received_.first, psn) > 0 && received_.contains(psn);
  }
  /// Returns the number of packets from `oldest` on that the last selective acknowledgement lists
  /// as received.
  [[nodiscard]] std::uint32_t received_from(std::uint32_t oldest) const noexcept {
    if (!reported_ || probes_) return 0;
    return received_.count_from(later_psn(received_.first, oldest));
  }
  /// Records that a packet was retransmitted. READs are also retransmitted if they are not selected
  /// (response_window).
  void note_sent(std::uint32_t psn) noexcept { begin_ = later_psn(begin_, psn_plus(psn, 1)); }

 private:
  psn_set received_;
  std::uint32_t begin_ = 0;  ///< the selected packets before this PSN have been retransmitted
  std::uint32_t end_ = 0;
  bool reported_ = false;  ///< `received_` is from a selective acknowledgement
  bool probes_ = false;    ///< one packet is selected
};

}  // namespace verbena::softdev::wire
