// SPDX-License-Identifier: MIT
// A request between the send queue and its path.
#pragma once

#include <array>
#include <span>

#include "softdev/core/memory_region.hpp"
#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// A request whose local memory was checked. Its message is made here and nowhere else on the send
/// side. Lives on the stack of the thread that sends it, in one access epoch.
struct outgoing_request {
  message what;
  bool begun = false;  ///< `what` has what all requests of the queue pair have in common
  recent_region region;
  std::span<const segment> local;  ///< payload of a send or write, sinks of a read or atomic
  /// The memory of `local`; the first piece is left for a route header.
  std::array<segment, limits::max_sges + 1> pieces;
};

}  // namespace verbena::softdev
