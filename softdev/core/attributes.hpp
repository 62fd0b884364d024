// SPDX-License-Identifier: MIT
// The attributes of a queue pair and the rules for changing them.
#pragma once

#include <cstdint>

#include "softdev/core/types.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Returns the maximum payload of a packet, in bytes, for a path MTU code (ibv_mtu).
[[nodiscard]] constexpr std::uint32_t bytes_of_mtu(std::uint8_t code) noexcept {
  return 128U << code;
}

/// The attributes of ibv_modify_qp(3) and ibv_query_qp(3) that this device uses.
struct queue_pair_attributes {
  queue_pair_state state = queue_pair_state::reset;
  queue_pair_state current_state = queue_pair_state::reset;
  bool sqd_notify = false;
  access_flags rights;  ///< of the peer
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 0;
  std::uint8_t path_mtu = 0;     ///< ibv_mtu: 1 … 5
  std::uint8_t timeout = 0;      ///< 4.096 us * 2^timeout; 0: no timeout
  std::uint8_t retry_count = 0;  ///< 0 … 7
  std::uint8_t rnr_retry = 0;    ///< 0 … 6; 7: unlimited
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint32_t receive_psn = 0;
  std::uint32_t send_psn = 0;
  std::uint32_t destination_qpn = 0;
  std::uint32_t qkey = 0;
  /// Set with attribute::address_vector. The caller keeps the address itself.
  softdev::path_to_peer path_to_peer = path_to_peer::same_host;
  std::uint16_t destination_lid = 0;  ///< with attribute::address_vector; 0 on Ethernet
  bool draining = false;              ///< of a query in SQD: requests are still in flight
};

/// Checks a modification against the transition table of queue pairs of `kind` and the ranges of
/// values. Errors: `invalid_argument` with the missing or surplus attributes, or with the value.
/// Allocates only on error.
[[nodiscard]] result<void> check_modification(queue_pair_state current,
                                              const queue_pair_attributes& wanted,
                                              attribute_mask mask, transport kind = transport::rc);

/// Copies the members that `mask` names from `wanted` to `target`, except the state.
void apply(queue_pair_attributes& target, const queue_pair_attributes& wanted, attribute_mask mask);

/// Returns the time of a timeout code: 4.096 us * 2^code.
[[nodiscard]] time_ns acknowledgement_timeout(std::uint8_t code) noexcept;
/// Returns the time of an RNR timer code (0 … 31).
[[nodiscard]] time_ns rnr_time(std::uint8_t code) noexcept;

}  // namespace verbena::softdev
