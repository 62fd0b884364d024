// SPDX-License-Identifier: MIT
// Selects which packets with a wrong or missing trailer are reported.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "softdev/core/types.hpp"
#include "softdev/wire/auth/packet_verifier.hpp"
#include "softdev/wire/socket/udp_socket.hpp"

namespace verbena::softdev::wire {

/// A packet that was dropped because of its trailer.
struct key_mismatch {
  authenticity what = authenticity::genuine;
  datagram_addresses ends;
  bool is_new = false;     ///< the first packet with this sender and result
  bool is_notice = false;  ///< a key_mismatch_notice, which gets no answer
};

/// Selects the packets to be reported: one packet per second, and the first packet with each sender
/// and result, for at most `most_senders` pairs of these. Threads: one thread at a time.
class key_mismatches {
 public:
  static constexpr std::size_t most_senders = 16;
  static constexpr time_ns interval = 1'000'000'000;

  /// Returns whether an undamaged packet is to be reported.
  [[nodiscard]] bool wants(authenticity what, const network_address& source,
                           time_ns now) const noexcept {
    return !pending_ && (is_new(what, source) || now >= next_);
  }
  /// Precondition: wants().
  void keep(authenticity what, const datagram_addresses& ends, bool is_notice,
            time_ns now) noexcept {
    pending_ = {
        .what = what, .ends = ends, .is_new = is_new(what, ends.source), .is_notice = is_notice};
    if (pending_->is_new) known_[count_++] = {ends.source, what};
    next_ = now + interval;
  }
  [[nodiscard]] std::optional<key_mismatch> take() noexcept {
    return std::exchange(pending_, std::nullopt);
  }

 private:
  using sender = std::pair<network_address, authenticity>;

  [[nodiscard]] bool is_new(authenticity what, const network_address& source) const noexcept {
    const auto end = known_.begin() + static_cast<std::ptrdiff_t>(count_);
    return count_ < most_senders && std::find(known_.begin(), end, sender{source, what}) == end;
  }

  std::array<sender, most_senders> known_{};
  std::size_t count_ = 0;
  time_ns next_ = 0;
  std::optional<key_mismatch> pending_;
};

}  // namespace verbena::softdev::wire
