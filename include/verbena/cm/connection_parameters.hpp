// SPDX-License-Identifier: MIT
// The parameters that two sides exchange when they connect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "verbena/base/ids.hpp"
#include "verbena/verbs/address_vector.hpp"
#include "verbena/verbs/reliability.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// The parameters of a request or a reply. In an event they are converted to this side's view: both
/// counts are limits of this side. Source: rdma_connect(3), rdma_get_cm_event(3). Threads:
/// immutable value.
struct connection_parameters {
  /// For `responder_resources` and `initiator_depth`: the limit of the device.
  static constexpr std::uint8_t device_maximum = 0xff;

  /// Private data, at most private_data_limit() bytes. Calls copy it; the data of an event is valid
  /// as long as the event.
  std::span<const std::byte> private_data = {};
  /// Reads and atomics of the peer that this side serves at once. Ignored for datagrams.
  std::uint8_t responder_resources = 1;
  /// Reads and atomics that this side may have in flight. Ignored for datagrams.
  std::uint8_t initiator_depth = 1;
  bool flow_control = false;  ///< sent to the peer, not used
  /// Retransmissions without an acknowledgement; at most 7. A reply does not carry it.
  std::uint8_t retry_count = reliability{}.retry_count;
  /// Retries of the peer if this side has no receive posted; at most 7. 7: no limit.
  std::uint8_t rnr_retry_count = reliability::default_rnr_retry_count;
  bool shared_receive_queue = false;  ///< whether the queue pair uses an SRQ
  queue_pair_number queue_pair = {};  ///< queue pair of the sender
};

/// The address of a datagram service or a multicast group. Source: rdma_get_cm_event(3).
/// Threads: immutable value.
struct datagram_parameters {
  address_vector address;             ///< for protection_domain::create_ah()
  queue_pair_number queue_pair = {};  ///< for address_handle::destination()
  queue_key key = {};                 ///< for address_handle::destination()
};

/// The queue key of all datagram services of the port spaces `udp` and `ipoib`: RDMA_UDP_QKEY.
inline constexpr queue_key datagram_queue_key{0x01234567};

/// Vendor-defined options of enhanced connection establishment. Source: ibv_query_ece(3).
/// Threads: immutable value.
struct ece {
  std::uint32_t vendor = 0;   ///< vendor of the options
  std::uint32_t options = 0;  ///< vendor-defined bits
  friend bool operator==(const ece&, const ece&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI::cm
