// SPDX-License-Identifier: MIT
// Options of protection_domain::create_qp(), one type for each transport.
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
  /// The sizes of the queues. The device may grant more: capabilities() returns the granted sizes.
  queue_sizes queues = {};
  /// Whether each send request generates a completion, even if it is not `.signaled`
  /// (`sq_sig_all`).
  bool signal_all = false;
  /// Whether to request the extended interface, queue_pair::extended(). If the provider does not
  /// support the interface, the queue pair has only the classic interface.
  bool extended = true;
  /// The operations of the extended interface (`send_ops_flags`). Some providers are faster with
  /// fewer operations. Empty: all operations of the transport.
  send_operations operations = {};

  /// The remote operations that the queue pair accepts from its peer: remote_read, remote_write,
  /// remote_atomic. Empty: the peer can only send.
  access_flags access = {};
  /// The local port, and the attributes of the packets.
  verbena::route route = {};
  /// The sequence number of the first packet that this side sends. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
  /// Timeouts and retries.
  verbena::reliability reliability = {};
};

/// Options of unreliable connections.
template <>
struct queue_pair_options<uc> {
  /// The sizes of the queues. The device may grant more: capabilities() returns the granted sizes.
  queue_sizes queues = {};
  /// Whether each send request generates a completion, even if it is not `.signaled`
  /// (`sq_sig_all`).
  bool signal_all = false;
  /// Whether to request the extended interface, queue_pair::extended(). If the provider does not
  /// support the interface, the queue pair has only the classic interface.
  bool extended = true;
  /// The operations of the extended interface (`send_ops_flags`). Some providers are faster with
  /// fewer operations. Empty: all operations of the transport.
  send_operations operations = {};

  /// The remote operations that the queue pair accepts from its peer: remote_write. Empty: the peer
  /// can only send.
  access_flags access = {};
  /// The local port, and the attributes of the packets.
  verbena::route route = {};
  /// The sequence number of the first packet that this side sends. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
};

/// Options of unreliable datagrams. The address handle of each request has the route to the peer.
template <>
struct queue_pair_options<ud> {
  /// The sizes of the queues. The device may grant more: capabilities() returns the granted sizes.
  queue_sizes queues = {};
  /// Whether each send request generates a completion, even if it is not `.signaled`
  /// (`sq_sig_all`).
  bool signal_all = false;
  /// Whether to request the extended interface, queue_pair::extended(). If the provider does not
  /// support the interface, the queue pair has only the classic interface.
  bool extended = true;
  /// The operations of the extended interface (`send_ops_flags`). Some providers are faster with
  /// fewer operations. Empty: all operations of the transport.
  send_operations operations = {};

  /// The local port.
  datagram_route route = {};
  /// The sequence number of the first packet that this side sends. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
};

}  // namespace verbena::inline VERBENA_ABI
