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

/// Options of protection_domain::create_channel(). channel::query() returns the effective values.
/// Threads: immutable value.
struct channel_options {
  /// The sizes of the queues. `max_send_wr` limits the sends, writes, reads and atomics in flight,
  /// `max_recv_wr` the receives in flight; both are at least 1.
  queue_sizes queues = {};
  /// The minimum number of entries of the completion queue. The completion queue always has an
  /// entry for each operation that can be in flight, so it cannot overrun. Ignored for a channel on
  /// a completion_hub.
  std::uint32_t min_cq_entries = 0;

  /// Whether the channel has a completion channel of its own: channel::fd(), arm() and wait() need
  /// it. Ignored for a channel on a completion_hub.
  bool events = false;

  /// Whether to count messages, so that reconnection::reconcile() can report after a reconnection
  /// which messages arrived. Both sides must set it. Adds about 100 instructions to each post of
  /// the blocking and scoped levels.
  bool counts_messages = false;

  /// Access of the peer to the memory of this side. Empty: the peer may only send.
  access_flags access = {};
  /// The local port, and the attributes of the packets.
  verbena::route route = {};
  /// The packet sequence number of the first packet that this side sends. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
  /// Timeouts and retries. If `rnr_retry_count` is not set, a send waits for a receive of the peer
  /// without a limit.
  verbena::reliability reliability = {};
};

}  // namespace verbena::inline VERBENA_ABI
