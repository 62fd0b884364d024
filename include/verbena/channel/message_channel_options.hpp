// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbena/channel/channel_options.hpp"

namespace verbena::inline VERBENA_ABI {

/// Whether a side sends only what the peer has posted a receive for.
enum class credits : std::uint8_t {
  off,        ///< no: what comes too early is sent again, as `connection.rnr_retry_count` says
  preferred,  ///< yes, if the peer does not have it off
  required,   ///< yes, or connecting fails
};

/// What message_channel::prepare() can be told.
struct message_channel_options {
  /// The longest message, 1 to local_slice::max_length bytes. Both sides use the lesser value.
  std::uint32_t message_bytes = 4096;
  std::uint32_t sends = 64;     ///< messages on their way at most; 1 to 2^30
  std::uint32_t receives = 64;  ///< receives that are posted at most: the peer's window; 1 to 2^30
  /// Buffers for messages that arrive. Those beyond `receives` are posted while the program keeps
  /// messages. 0: twice `receives`.
  std::uint32_t receive_buffers = 0;
  /// Buffers for messages that are sent: by take_buffer(), and for bytes that are copied. 0: as
  /// many as `sends`.
  std::uint32_t send_buffers = 0;
  /// Shorter messages travel inside the request, without a buffer. A device that cannot do it
  /// makes it 0.
  std::uint32_t inline_bytes = 64;
  verbena::credits credits = credits::preferred;  ///< whether messages wait for receives
  /// The way to the peer: port, address, packet size, time-outs, retries, rights of the peer. Its
  /// depths, pieces, inline bytes and CQ entries mean nothing.
  channel_options connection = {};
};

}  // namespace verbena::inline VERBENA_ABI
