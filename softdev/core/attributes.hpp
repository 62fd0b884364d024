// SPDX-License-Identifier: MIT
// The attributes of a queue pair and the rules for changing them.
#pragma once

#include <cstdint>

#include "softdev/core/types.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// The payload of a packet with a path MTU of this code (ibv_mtu), in bytes.
[[nodiscard]] constexpr std::uint32_t bytes_of_mtu(std::uint8_t code) noexcept {
  return 128U << code;
}

/// What ibv_modify_qp(3) sets and ibv_query_qp(3) tells, as far as it means something here.
struct queue_pair_attributes {
  queue_pair_state state = queue_pair_state::reset;
  queue_pair_state current_state = queue_pair_state::reset;
  bool sqd_notify = false;
  access_flags rights;  ///< of the peer
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 0;
  std::uint8_t path_mtu = 0;     ///< ibv_mtu: 1 … 5
  std::uint8_t timeout = 0;      ///< 4.096 us * 2^timeout; 0: wait for ever
  std::uint8_t retry_count = 0;  ///< 0 … 7
  std::uint8_t rnr_retry = 0;    ///< 0 … 6; 7: for ever
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint32_t receive_psn = 0;
  std::uint32_t send_psn = 0;
  std::uint32_t destination_qpn = 0;
  std::uint32_t qkey = 0;
  /// With attribute::address_vector. The address itself is kept by the caller.
  softdev::path_to_peer path_to_peer = path_to_peer::same_host;
  std::uint16_t destination_lid = 0;  ///< with attribute::address_vector; 0 on Ethernet
  bool draining = false;              ///< in SQD, of a query: requests are not yet answered
};

/// Checks a modification from `current` by `wanted` under `mask` against the transition table of
/// queue pairs of `kind` and the ranges of values. Errors: `invalid_argument` naming the missing or
/// surplus attributes, or the value. Allocates only on error.
[[nodiscard]] result<void> check_modification(queue_pair_state current,
                                              const queue_pair_attributes& wanted,
                                              attribute_mask mask, transport kind = transport::rc);

/// Copies the members that `mask` names from `wanted` to `target`; not the state.
void apply(queue_pair_attributes& target, const queue_pair_attributes& wanted, attribute_mask mask);

/// The time that a timeout code stands for: 4.096 us * 2^code.
[[nodiscard]] time_ns acknowledgement_timeout(std::uint8_t code) noexcept;
/// The time that an RNR timer code (0 … 31) stands for.
[[nodiscard]] time_ns rnr_time(std::uint8_t code) noexcept;

}  // namespace verbena::softdev
