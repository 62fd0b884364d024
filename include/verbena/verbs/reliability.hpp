// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/config.hpp"
#include "verbena/base/timers.hpp"

namespace verbena::inline VERBENA_ABI {

/// Timeouts and retries of a reliable connection. Source: ibv_modify_qp(3).
/// Threads: immutable value.
///
/// A count of 7 is special: for `rnr_retry_count` it means retry without a limit on every device,
/// and for `retry_count` on Linux's rxe too. A queue pair with such a count does not report a dead
/// peer. The defaults are 6.
struct reliability {
  /// `rnr_retry_count` of a queue pair if it is not set.
  static constexpr std::uint8_t default_rnr_retry_count = 6;
  /// Retries without a limit.
  static constexpr std::uint8_t unlimited_rnr_retries = 7;

  /// How long the adapter waits for an acknowledgement before it retransmits: 67 ms.
  ack_timeout timeout = {};
  /// Retransmissions without an acknowledgement before the request fails; at most 7.
  std::uint8_t retry_count = 6;
  /// Retries before the request fails if the peer has no receive posted; at most 7. If not set:
  /// `default_rnr_retry_count`. Channels retry without a limit, because the deadline of each
  /// operation ends the retries.
  std::optional<std::uint8_t> rnr_retry_count = {};
  /// How long the peer waits before it retries if this side has no receive posted: 2.56 ms.
  rnr_timer min_rnr_timer = {};
  /// Outstanding RDMA READs and atomics in each direction. Reduced to the limits of both devices.
  std::uint8_t read_depth = 16;

  /// Returns `rnr_retry_count`, or `default_rnr_retry_count` if it is not set.
  [[nodiscard]] constexpr std::uint8_t rnr_retries() const noexcept {
    return rnr_retry_count.value_or(default_rnr_retry_count);
  }

  friend bool operator==(const reliability&, const reliability&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI
