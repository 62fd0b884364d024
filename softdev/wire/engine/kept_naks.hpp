// SPDX-License-Identifier: MIT
// NAKs that take effect when all earlier requests are complete.
#pragma once

#include <cstdint>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/engine/sequence.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// The packet for which the responder was not ready (RNR NAK).
struct rnr_nak {
  std::uint8_t timer = 0;  ///< code
  std::uint32_t psn = 0;
  bool exists = false;

  [[nodiscard]] response result(std::uint32_t peer_qpn) const noexcept {
    return {.outcome = verdict::receiver_not_ready,
            .rnr_timer = timer,
            .why = {.why = reason::receiver_not_ready, .key = peer_qpn}};
  }
};

/// The packet that the responder refused, after which the connection ends.
struct fatal_nak {
  std::uint8_t syndrome = 0;  ///< 0: none
  std::uint32_t psn = 0;

  [[nodiscard]] bool exists() const noexcept { return syndrome != 0; }
  /// Returns whether the refused packet is one of `packets` from `first_psn` on.
  [[nodiscard]] bool is_within(std::uint32_t first_psn, std::uint32_t packets) const noexcept {
    return exists() && ((psn - first_psn) & psn_mask) < packets;
  }
  /// Forgets the NAK if its PSN is before `oldest_psn`, so that its request is complete: after 2^23
  /// PSNs, an old NAK would appear to be new.
  void forget_before(std::uint32_t oldest_psn) noexcept {
    if (psn_distance(oldest_psn, psn) < 0) *this = {};
  }
  /// Returns the result of the request with the refused packet.
  [[nodiscard]] response result(std::uint32_t peer_qpn) const noexcept {
    verdict outcome = verdict::invalid_request;
    if (syndrome == syndrome_access_error) outcome = verdict::access_error;
    if (syndrome == syndrome_operation_error) outcome = verdict::operation_error;
    return {.outcome = outcome,
            .why = {.why = reason::peer_refused, .detail = peer_qpn, .extra = syndrome}};
  }
};

}  // namespace verbena::softdev::wire
