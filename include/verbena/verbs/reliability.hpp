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
/// 7 in `rnr_retry_count` means retries without a limit: a send to a peer that never posts a
/// receive does not fail. rxe also treats 7 in `retry_count` as no limit: a request to a dead peer
/// then does not fail.
struct reliability {
  /// `rnr_retry_count` of a queue pair if it is not set.
  static constexpr std::uint8_t default_rnr_retry_count = 6;
  /// The value of `rnr_retry_count` for retries without a limit.
  static constexpr std::uint8_t unlimited_rnr_retries = 7;

  /// The time that the device waits for an acknowledgement before it retransmits. Default: 67 ms.
  ack_timeout timeout = {};
  /// Retransmissions of a packet without an acknowledgement before the request fails with
  /// `retries_exceeded`; 0 to 7.
  std::uint8_t retry_count = 6;
  /// Retries after RNR NAKs (the peer has no receive posted) before the request fails with
  /// `rnr_retries_exceeded`; 0 to 7. If not set: `default_rnr_retry_count` for queue pairs,
  /// `unlimited_rnr_retries` for channels.
  std::optional<std::uint8_t> rnr_retry_count = {};
  /// The time that the peer waits before it sends a message again if this side has no receive
  /// posted. Default: 2.56 ms.
  rnr_timer min_rnr_timer = {};
  /// Outstanding RDMA READs and atomics in each direction: the initiator depth and the responder
  /// resources. Reduced to the limits of both devices.
  std::uint8_t read_depth = 16;

  /// Returns `rnr_retry_count`, or `default_rnr_retry_count` if it is not set.
  [[nodiscard]] constexpr std::uint8_t rnr_retries() const noexcept {
    return rnr_retry_count ? *rnr_retry_count : default_rnr_retry_count;
  }

  friend bool operator==(const reliability&, const reliability&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI
