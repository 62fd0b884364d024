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
  /// The most connections that this process makes at the same time at the request of peers, at
  /// least 1. The others ask again.
  std::uint32_t max_accepting = 32;
  /// The most queue pairs, of this and of other groups with a copy of the budget. Without a budget,
  /// there is no limit.
  std::optional<queue_pair_budget> budget = {};
  /// The address of this host at which peers reach it: numeric, or a name. If empty, the local
  /// address of the connection to the store.
  std::string host = {};
  /// Determines the pauses between attempts to connect. If not set: random.
  std::optional<std::uint64_t> seed = {};
};

/// Counters of connections on first use. Threads: immutable value.
struct first_use_statistics {
  std::uint32_t connected = 0;  ///< channels with a queue pair, of either side's request
  std::uint32_t waiting = 0;    ///< connected by peers, and not used by this process yet
  std::uint64_t asked = 0;      ///< requests to peers, with those that were repeated
  std::uint64_t accepted = 0;   ///< requests of peers that led to a connection
  std::uint64_t refused = 0;    ///< requests of peers that have to ask again
  std::uint64_t garbage = 0;    ///< connections that broke the format or lacked the token
};

}  // namespace verbena::inline VERBENA_ABI::net
