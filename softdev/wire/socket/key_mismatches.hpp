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
/// and result, for at most `most_senders` pairs of these. A new pair replaces one that was reported
/// an hour ago. Threads: one thread at a time.
class key_mismatches {
 public:
  static constexpr std::size_t most_senders = 16;
  static constexpr time_ns interval = 1'000'000'000;
  static constexpr time_ns reused_after = 3600 * interval;

  /// Returns whether an undamaged packet is to be reported.
  [[nodiscard]] bool wants(authenticity what, const network_address& source,
                           time_ns now) const noexcept {
    return !pending_ && (is_new(what, source, now) || now >= next_);
  }
  /// Precondition: wants().
  void keep(authenticity what, const datagram_addresses& ends, bool is_notice,
            time_ns now) noexcept {
    pending_ = {.what = what,
                .ends = ends,
                .is_new = is_new(what, ends.source, now),
                .is_notice = is_notice};
    if (pending_->is_new) {
      known_[first_ % most_senders] = {
          .source = ends.source, .what = what, .used = true, .reported_at = now};
      ++first_;
    }
    next_ = now + interval;
  }
  [[nodiscard]] std::optional<key_mismatch> take() noexcept {
    return std::exchange(pending_, std::nullopt);
  }

 private:
  struct sender {
    network_address source{};
    authenticity what = authenticity::genuine;
    bool used = false;
    time_ns reported_at = 0;
  };

  [[nodiscard]] bool is_new(authenticity what, const network_address& source,
                            time_ns now) const noexcept {
    const sender& oldest = known_[first_ % most_senders];
    if (oldest.used && now - oldest.reported_at < reused_after) return false;
    return std::ranges::none_of(known_, [&](const sender& each) {
      return each.used && each.source == source && each.what == what;
    });
  }

  std::array<sender, most_senders> known_{};  ///< a ring
  std::size_t first_ = 0;                     ///< the oldest sender, or a free place
  time_ns next_ = 0;
  std::optional<key_mismatch> pending_;
};

}  // namespace verbena::softdev::wire
