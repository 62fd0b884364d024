// SPDX-License-Identifier: MIT
// A request between the send queue and its path.
#pragma once

#include <array>
#include <span>

#include "softdev/core/memory_region.hpp"
#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// A request whose local memory was checked. Messages of the send side are made only in this
/// structure. The object is on the stack of the sending thread, in one access epoch.
struct outgoing_request {
  message what;
  bool begun = false;  ///< `what` has the values that all requests of the queue pair share
  recent_region region;
  std::span<const segment> local;  ///< payload of a send or write, sinks of a read or atomic
  /// The array of `local`. The first element is reserved for a route header.
  std::array<segment, limits::max_sges + 1> pieces;
};

}  // namespace verbena::softdev
