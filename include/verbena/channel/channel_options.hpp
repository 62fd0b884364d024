// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/ids.hpp"
#include "verbena/base/timers.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/mtu.hpp"

namespace verbena::inline VERBENA_ABI {

/// What protection_domain::create_channel() can be told. channel::query() reads it back.
struct channel_options {
  std::uint32_t max_send_wr = 64;     ///< sends, writes, reads and atomics in flight; at least 1
  std::uint32_t max_recv_wr = 64;     ///< receives in flight; at least 1
  std::uint32_t max_send_sge = 1;     ///< pieces of memory that one of the former may have
  std::uint32_t max_recv_sge = 1;     ///< and one receive
  std::uint32_t max_inline_data = 0;  ///< bytes that one message may carry inline; 0: none
  /// Entries that the completion queue has at least. It always has one for each operation that can
  /// be in flight, and so never overruns. Means nothing for a channel on a completion_hub.
  std::uint32_t min_cq_entries = 0;

  /// Counts messages, so that the peer can be told after channel::reconnect() which of its have
  /// arrived, and this side can settle its own: reconnection::settle(). Both sides have to. Posts
  /// of the blocking and scoped levels then cost some 100 instructions more.
  bool counts_messages = false;

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
  /// The sequence number of the first packet that this side sends; the peer's comes with its
  /// endpoint. Not given: random.
  std::optional<packet_sequence_number> first_psn = {};

  /// How long to wait for an acknowledgement: 67 ms.
  ack_timeout timeout = {};
  /// How often to send again without an answer; at most 7. To Linux's rxe 7 means for ever: there a
  /// peer that has died is then never noticed.
  std::uint8_t retry_count = 6;
  /// How often to send again when the peer has no receive posted; at most 7. 7 means for as long as
  /// the deadline of the operation lets it.
  std::uint8_t rnr_retry_count = 7;
  /// How long the peer is asked to wait when this side has no receive posted: 2.56 ms.
  rnr_timer min_rnr_timer = {};
  /// Reads and atomics in flight, in each direction; reduced to what both devices can do.
  std::uint8_t read_depth = 16;

  std::uint8_t service_level = 0;  ///< at most 15
  std::uint8_t traffic_class = 0;  ///< on RoCE: DSCP in the upper six bits
  std::uint8_t hop_limit = 64;     ///< how many routers packets may pass
  std::uint16_t pkey_index = 0;    ///< the place of the partition key in the port's table
};

}  // namespace verbena::inline VERBENA_ABI
