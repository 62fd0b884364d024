// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/config.hpp"
#include "verbena/net/queue_pair_budget.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// When the channels of a group are connected.
enum class connect_mode : std::uint8_t {
  at_join,  ///< group::join() connects all channels, N² of them
  /// The first operation on a channel connects it. All ranks of a group must select it.
  on_first_use,
};

/// Limits of connect_mode::on_first_use. Threads: immutable value.
struct first_use_options {
  /// The time for a connection if the first operation has no deadline.
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  /// The maximum number of connection requests that this process serves at once; at least 1.
  /// Further peers retry.
  std::uint32_t max_accepting = 32;
  /// Limits the queue pairs of all groups that share it. Unset: no limit.
  std::optional<queue_pair_budget> budget = {};
  /// The address of this host at which peers reach it: numeric, or a name. If empty, the local
  /// address of the connection to the store.
  std::string host = {};
  /// Determines the pauses between attempts to connect. If not set: random.
  std::optional<std::uint64_t> seed = {};
};

/// Counters of connections on first use. Threads: immutable value.
struct first_use_statistics {
  /// Channels with a queue pair, whichever side requested the connection.
  std::uint32_t connected = 0;
  std::uint32_t unused = 0;             ///< connected by a peer, not yet used by this process
  std::uint64_t requests_sent = 0;      ///< connection requests sent, including retries
  std::uint64_t requests_accepted = 0;  ///< connection requests of peers that led to a connection
  /// Connection requests of peers that were rejected; the peer retries.
  std::uint64_t requests_rejected = 0;
  std::uint64_t malformed = 0;  ///< connections that sent a malformed message or a wrong token
};

}  // namespace verbena::inline VERBENA_ABI::net
