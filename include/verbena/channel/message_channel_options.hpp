// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/ids.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/queue_sizes.hpp"
#include "verbena/verbs/reliability.hpp"
#include "verbena/verbs/route.hpp"

namespace verbena::inline VERBENA_ABI {

/// Whether this side sends a message only if the peer has posted a receive for it.
enum class credits : std::uint8_t {
  off,        ///< no; if a message arrives too early, the device retries (`rnr_retry_count`)
  preferred,  ///< yes, unless the peer selected `off`
  required,   ///< yes; if the peer selected `off`, connecting fails
};

/// Options of message_channel::prepare(). Threads: immutable value.
struct message_channel_options {
  /// The longest message, 1 to local_slice::max_length bytes. The smaller value of both sides
  /// applies.
  std::uint32_t message_bytes = 4096;
  /// The depths of the queues, 1 to 2^30 each: messages in flight to the peer, and posted receives,
  /// which are the window of the peer. Each message is one scatter/gather element.
  queue_depths queues = {};
  /// Buffers for received messages. Buffers beyond `queues.max_recv_wr` replace those that the
  /// program keeps. 0: twice `queues.max_recv_wr`.
  std::uint32_t receive_buffers = 0;
  /// Buffers for messages to send, for take_buffer() and for copied bytes. 0: `queues.max_send_wr`.
  std::uint32_t send_buffers = 0;
  /// Messages up to this size are sent inline, without a buffer. If the device does not support
  /// that many bytes of inline data: 0.
  std::uint32_t inline_bytes = 64;
  /// Whether messages wait for receives of the peer.
  verbena::credits credits = credits::preferred;
  /// Whether the channel has a completion channel of its own: message_channel::fd(), arm() and
  /// wait() need it. Ignored for a channel on a completion_hub.
  bool events = false;

  /// Access of the peer to the memory of this side, in addition to messages.
  access_flags access = {};
  /// The local port, and the attributes of the packets.
  verbena::route route = {};
  /// The packet sequence number of the first packet that this side sends. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
  /// Timeouts and retries. If `rnr_retry_count` is not set, a message waits for a receive of the
  /// peer without a limit.
  verbena::reliability reliability = {};
};

}  // namespace verbena::inline VERBENA_ABI
