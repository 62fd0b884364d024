// SPDX-License-Identifier: MIT
// Options of new queue pairs: one aggregate for each transport. Every member has a default.
#pragma once

#include <optional>

#include "verbena/base/ids.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/queue_sizes.hpp"
#include "verbena/verbs/reliability.hpp"
#include "verbena/verbs/route.hpp"
#include "verbena/verbs/send_operations.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

template <class Transport>
struct queue_pair_options;

/// Options of reliable connections.
template <>
struct queue_pair_options<rc> {
  /// The sizes of the queues. The adapter may grant more: see capabilities().
  queue_sizes queues = {};
  /// Whether every send request generates a completion, including those that are not `.signaled`.
  bool signal_all = false;
  /// Whether to request the extended interface, extended(). If the provider does not support it,
  /// the queue pair is created without it.
  bool extended = true;
  /// Operations of the extended interface; some providers are faster with fewer. Empty: all
  /// operations of the transport.
  send_operations operations = {};

  /// What the peer may do to the memory of this side. Empty: the peer may only send.
  access_flags access = {};
  /// The local port, and the attributes of the packets.
  verbena::route route = {};
  /// The packet sequence number of the first packet. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
  /// Timeouts and retries.
  verbena::reliability reliability = {};
};

/// Options of unreliable connections.
template <>
struct queue_pair_options<uc> {
  /// The sizes of the queues. The adapter may grant more: see capabilities().
  queue_sizes queues = {};
  /// Whether every send request generates a completion, including those that are not `.signaled`.
  bool signal_all = false;
  /// Whether to request the extended interface, extended(). If the provider does not support it,
  /// the queue pair is created without it.
  bool extended = true;
  /// Operations of the extended interface; some providers are faster with fewer. Empty: all
  /// operations of the transport.
  send_operations operations = {};

  /// What the peer may do to the memory of this side. Empty: the peer may only send.
  access_flags access = {};
  /// The local port, and the attributes of the packets.
  verbena::route route = {};
  /// The packet sequence number of the first packet. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
};

/// Options of unreliable datagrams. The address handle of each request has the route to the peer.
template <>
struct queue_pair_options<ud> {
  /// The sizes of the queues. The adapter may grant more: see capabilities().
  queue_sizes queues = {};
  /// Whether every send request generates a completion, including those that are not `.signaled`.
  bool signal_all = false;
  /// Whether to request the extended interface, extended(). If the provider does not support it,
  /// the queue pair is created without it.
  bool extended = true;
  /// Operations of the extended interface; some providers are faster with fewer. Empty: all
  /// operations of the transport.
  send_operations operations = {};

  /// The local port.
  datagram_route route = {};
  /// The packet sequence number of the first packet. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
};

}  // namespace verbena::inline VERBENA_ABI
