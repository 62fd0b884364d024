// SPDX-License-Identifier: MIT
// The peer of a queue pair in texts.
#pragma once

#include <string>

#include "verbena/verbs/queue_pair_base.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns ` to queue pair 0x1a2b at 192.0.2.1`; an empty string if the queue pair has no peer.
/// Queries the queue pair.
[[nodiscard]] std::string peer_of(const queue_pair_base& queue);

}  // namespace verbena::inline VERBENA_ABI::detail
