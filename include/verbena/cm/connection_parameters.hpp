// SPDX-License-Identifier: MIT
// What two sides tell each other when they connect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "verbena/base/ids.hpp"
#include "verbena/verbs/address_vector.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// A request or its answer. What an event brings is seen from this side: both counts are what this
/// side may use. Source: rdma_connect(3), rdma_get_cm_event(3). Threads: immutable value.
struct connection_parameters {
  /// For `responder_resources` and `initiator_depth`: as much as the device can.
  static constexpr std::uint8_t device_maximum = 0xff;

  /// Bytes of the program, at most private_data_limit(). Copied by calls; of an event, they live as
  /// long as it.
  std::span<const std::byte> private_data = {};
  /// Reads and atomics of the peer that this side answers at once. Ignored for datagrams.
  std::uint8_t responder_resources = 1;
  /// Reads and atomics that this side has under way at once. Ignored for datagrams.
  std::uint8_t initiator_depth = 1;
  bool flow_control = false;  ///< told to the peer, not used
  /// How often to send again without an answer; at most 7. An answer has none.
  std::uint8_t retry_count = 7;
  /// How often the peer sends again when this side has no receive; at most 7, 7 means for ever.
  std::uint8_t rnr_retry_count = 7;
  bool shared_receive_queue = false;  ///< whether the queue pair has one
  queue_pair_number queue_pair = {};  ///< of the sender of the message
};

/// Where a datagram service or a multicast group is reached. Source: rdma_get_cm_event(3).
/// Threads: immutable value.
struct datagram_parameters {
  address_vector address;             ///< for protection_domain::create_address_handle()
  queue_pair_number queue_pair = {};  ///< for address_handle::destination()
  queue_key key = {};                 ///< for address_handle::destination()
};

/// The queue key of all datagram services of the port spaces `udp` and `ipoib`: RDMA_UDP_QKEY.
inline constexpr queue_key datagram_queue_key{0x01234567};

/// Options of enhanced connection establishment, as vendors define them. Source: ibv_query_ece(3).
/// Threads: immutable value.
struct ece {
  std::uint32_t vendor = 0;   ///< whose options these are
  std::uint32_t options = 0;  ///< bits that the vendor defines
  friend bool operator==(const ece&, const ece&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI::cm
