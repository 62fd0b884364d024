// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/config.hpp"
#include "verbena/net/queue_pair_budget.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// Selects when the channels of a group are connected.
enum class connect_mode : std::uint8_t {
  at_join,  ///< group::join() connects all channels, N per rank
  /// The first operation on a channel connects the channel. All ranks of a group must use the same
  /// mode.
  on_first_use,
};

/// Options of connect_mode::on_first_use. Threads: immutable value.
struct first_use_options {
  /// The time limit for connecting a channel if the first operation has no deadline. Positive.
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  /// The maximum number of connection requests that this process serves concurrently; at least 1.
  /// Requests beyond the maximum are rejected, and their peers retry.
  std::uint32_t max_accepting = 32;
  /// Limits the number of queue pairs of all groups that share the budget. If all of them exist, an
  /// operation that connects a channel first closes idle connections of its group; see
  /// group::close_idle(). Unset: no limit.
  std::optional<queue_pair_budget> budget = {};
  /// The numeric address or the name at which peers reach this host; not a wildcard address such as
  /// `0.0.0.0`. If empty, the local address of the connection to the store; if PMIx is used, a
  /// process on the host of the store uses the address at which another host reached the store.
  std::string host = {};
  /// Seed of the pauses between connection attempts. Unset: a random seed.
  std::optional<std::uint64_t> seed = {};
};

/// Counters of connections on first use. Threads: immutable value.
struct first_use_statistics {
  /// Channels with a queue pair, regardless of the side that requested the connection.
  std::uint32_t connected = 0;
  /// Connected channels that do not have their queue pair: this process has posted no operation
  /// yet, or the queue pair was detached by group::close_idle() or because the budget was
  /// exhausted.
  std::uint32_t unused = 0;
  std::uint64_t requests_sent = 0;      ///< connection requests sent, including retries
  std::uint64_t requests_accepted = 0;  ///< requests of peers that were accepted and confirmed
  /// Connection requests of peers that were rejected; the peers retry.
  std::uint64_t requests_rejected = 0;
  std::uint64_t closed = 0;     ///< idle connections that this process or a peer has closed
  std::uint64_t malformed = 0;  ///< connections that sent a malformed message or a wrong token
};

}  // namespace verbena::inline VERBENA_ABI::net
