// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <source_location>
#include <span>

#include "verbena/base/steps.hpp"
#include "verbena/channel/abort_at.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/net/peer_operations.hpp"

namespace verbena::inline VERBENA_ABI::net {

class multi_channel;

/// The operations of a multi_channel for several ranks, in steps, none of which blocks.
///
///   co_await engine.complete(channels.in_steps().gather(parts));
///
/// Each function posts operations and returns steps that end when all operations have completed,
/// with the errors of the function of multi_channel with the same name. Several calls may be in
/// progress at the same time. If a send or receive queue is full, the steps wait for room; the
/// order among calls is unspecified. At most 64 operations of a call are in flight. Further parts
/// are posted after these have completed, so a peer must not wait for a later part before it serves
/// an earlier one. After `limit`, the steps refuse further operations as refusal::limit_passed. The
/// steps poll the hub of the channels. During the first 50 us without completions, they poll each
/// time they are continued. Then they wait for an event of the hub, for at most 20 ms. If several
/// calls wait, one call may take the event of another call, which then continues up to 20 ms late.
/// Without completion_hub_options::events, the steps pause for an eighth of the time waited so far,
/// at least 20 us and at most 1 ms. A call allocates a coroutine frame of about 8 KiB. If an
/// operation fails, the call also allocates the error.
///
/// *Contract*: until the steps have ended, the program neither writes memory of sources, nor reads
/// or writes memory of sinks, and keeps both registered. The channels and the elements of lists
/// must exist until then, and the channels must not be moved. If the steps are destroyed before
/// their end, the destructor flushes the channels of operations in flight. This ends these
/// connections and blocks for at most 5 s per channel.
///
/// With connect_mode::on_first_use, a post that connects a channel blocks until the channel is
/// connected or `limit` passes, or without a limit for at most first_use_options::timeout.
///
/// Threads: one thread at a time, with the channels.
class multi_channel_steps {
 public:
  /// Refers to `of`. Called by multi_channel::in_steps().
  explicit multi_channel_steps(multi_channel& of) noexcept : of_(&of) {}

  /// Sends each part to its rank; see multi_channel::scatter(). If `limit` passes, ends the
  /// connections of the operations in flight.
  [[nodiscard]] steps<void> scatter(
      std::span<peer_send> parts, abort_at limit = {},
      std::source_location posted = std::source_location::current()) const;
  /// Writes each part to the memory of its rank.
  [[nodiscard]] steps<void> scatter(
      std::span<peer_write> parts, abort_at limit = {},
      std::source_location posted = std::source_location::current()) const;
  /// Receives one message for each part from its rank.
  [[nodiscard]] steps<void> gather(
      std::span<peer_receive> parts, abort_at limit = {},
      std::source_location posted = std::source_location::current()) const;
  /// Reads each part from the memory of its rank.
  [[nodiscard]] steps<void> gather(
      std::span<peer_read> parts, abort_at limit = {},
      std::source_location posted = std::source_location::current()) const;
  /// Sends the same bytes to each of `ranks`, as one message per rank.
  [[nodiscard]] steps<void> multicast(
      const detail::lasting_ranks& ranks, const source& data, abort_at limit = {},
      const operation_options& options = {},
      std::source_location posted = std::source_location::current()) const;

 private:
  multi_channel* of_;
};

}  // namespace verbena::inline VERBENA_ABI::net
