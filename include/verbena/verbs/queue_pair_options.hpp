// SPDX-License-Identifier: MIT
// How queue pairs are made: one aggregate for each transport, every member with a default.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/ids.hpp"
#include "verbena/base/timers.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/mtu.hpp"
#include "verbena/verbs/send_operations.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

template <class Transport>
struct queue_pair_options;

/// Options of reliable connections.
template <>
struct queue_pair_options<rc> {
  std::uint32_t max_send_wr = 64;  ///< requests that may be outstanding in the send queue
  std::uint32_t max_recv_wr = 64;  ///< and in the receive queue
  std::uint32_t max_send_sge = 1;  ///< slices that one request to send may have
  std::uint32_t max_recv_sge = 1;  ///< and one to receive
  /// Bytes that one request may carry inline; 0: none.
  std::uint32_t max_inline_data = 0;
  /// Whether every request reports its completion, also those that are not `.signaled`.
  bool signal_all = false;
  /// Whether to ask for the interface of extended(). Providers without it make the queue pair
  /// without it; nothing fails.
  bool extended = true;
  /// The operations that the extended interface shall have, where providers save something by less.
  /// Empty: all of the transport.
  send_operations operations = {};

  /// What the peer may do to this side's memory. Empty: send to it, and nothing else.
  access_flags access = {};

  /// The port to send and receive by.
  port_number port = port_number(1);
  /// The entry of the port's GID table to send from. Not given: context::routable_gid() on
  /// Ethernet, no GID on InfiniBand.
  std::optional<verbena::gid_index> gid_index = {};
  /// The largest packet. Not given: the port's active MTU. The connection uses the lesser of both
  /// sides' values.
  std::optional<mtu> path_mtu = {};
  /// The sequence number of the first packet. Not given: random.
  std::optional<packet_sequence_number> first_psn = {};

  /// How long to wait for an acknowledgement: 67 ms.
  ack_timeout timeout = {};
  /// How often to send again without an answer; at most 7.
  std::uint8_t retry_count = 7;
  /// How often to send again when the peer has no receive posted; at most 7, and 7 means for ever.
  std::uint8_t rnr_retry_count = 6;
  /// How long the peer is asked to wait when this side has no receive posted: 2.56 ms.
  rnr_timer min_rnr_timer = {};
  /// Reads and atomics in flight, in each direction; reduced to what both devices can do.
  std::uint8_t read_depth = 16;

  std::uint8_t service_level = 0;  ///< at most 15
  std::uint8_t traffic_class = 0;  ///< on RoCE: DSCP in the upper six bits
  std::uint8_t hop_limit = 64;     ///< how many routers packets may pass
  std::uint16_t pkey_index = 0;    ///< the place of the partition key in the port's table
};

/// Options of unreliable connections.
template <>
struct queue_pair_options<uc> {
  std::uint32_t max_send_wr = 64;  ///< requests that may be outstanding in the send queue
  std::uint32_t max_recv_wr = 64;  ///< and in the receive queue
  std::uint32_t max_send_sge = 1;  ///< slices that one request to send may have
  std::uint32_t max_recv_sge = 1;  ///< and one to receive
  /// Bytes that one request may carry inline; 0: none.
  std::uint32_t max_inline_data = 0;
  /// Whether every request reports its completion, also those that are not `.signaled`.
  bool signal_all = false;
  /// Whether to ask for the interface of extended(). Providers without it make the queue pair
  /// without it; nothing fails.
  bool extended = true;
  /// The operations that the extended interface shall have, where providers save something by less.
  /// Empty: all of the transport.
  send_operations operations = {};

  /// What the peer may do to this side's memory. Empty: send to it, and nothing else.
  access_flags access = {};

  /// The port to send and receive by.
  port_number port = port_number(1);
  /// The entry of the port's GID table to send from. Not given: context::routable_gid() on
  /// Ethernet, no GID on InfiniBand.
  std::optional<verbena::gid_index> gid_index = {};
  /// The largest packet. Not given: the port's active MTU. The connection uses the lesser of both
  /// sides' values.
  std::optional<mtu> path_mtu = {};
  /// The sequence number of the first packet. Not given: random.
  std::optional<packet_sequence_number> first_psn = {};

  std::uint8_t service_level = 0;  ///< at most 15
  std::uint8_t traffic_class = 0;  ///< on RoCE: DSCP in the upper six bits
  std::uint8_t hop_limit = 64;     ///< how many routers packets may pass
  std::uint16_t pkey_index = 0;    ///< the place of the partition key in the port's table
};

/// Options of unreliable datagrams. The way to a peer is said by its address handle.
template <>
struct queue_pair_options<ud> {
  std::uint32_t max_send_wr = 64;  ///< requests that may be outstanding in the send queue
  std::uint32_t max_recv_wr = 64;  ///< and in the receive queue
  std::uint32_t max_send_sge = 1;  ///< slices that one request to send may have
  std::uint32_t max_recv_sge = 1;  ///< and one to receive
  /// Bytes that one request may carry inline; 0: none.
  std::uint32_t max_inline_data = 0;
  /// Whether every request reports its completion, also those that are not `.signaled`.
  bool signal_all = false;
  /// Whether to ask for the interface of extended(). Providers without it make the queue pair
  /// without it; nothing fails.
  bool extended = true;
  /// The operations that the extended interface shall have, where providers save something by less.
  /// Empty: all of the transport.
  send_operations operations = {};

  /// The port to send and receive by.
  port_number port = port_number(1);
  /// The entry of the port's GID table that endpoint() tells peers. Not given:
  /// context::routable_gid() on Ethernet, no GID on InfiniBand.
  std::optional<verbena::gid_index> gid_index = {};
  /// The sequence number of the first packet. Not given: random.
  std::optional<packet_sequence_number> first_psn = {};
  std::uint16_t pkey_index = 0;  ///< the place of the partition key in the port's table
};

/// What a queue pair was granted; at least what was asked.
/// Source: ibv_create_qp(3). Threads: immutable value.
struct queue_pair_capabilities {
  std::uint32_t max_send_wr = 0;      ///< requests outstanding in the send queue
  std::uint32_t max_recv_wr = 0;      ///< requests outstanding in the receive queue
  std::uint32_t max_send_sge = 0;     ///< slices of a request to send
  std::uint32_t max_recv_sge = 0;     ///< slices of a request to receive
  std::uint32_t max_inline_data = 0;  ///< bytes that a request may carry inline
};

}  // namespace verbena::inline VERBENA_ABI
