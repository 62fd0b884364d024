// SPDX-License-Identifier: MIT
// Where requests go, for all transports.
#pragma once

#include "softdev/core/message.hpp"
#include "softdev/core/remote_path.hpp"

namespace verbena::softdev {

/// A queue pair of this process, the path to other processes, or neither with the reason.
struct route {
  queue_pair* here = nullptr;
  remote_path* away = nullptr;
  reason why = reason::none;
};

/// Returns what the sender of `what` learns if its destination does not answer.
[[nodiscard]] inline response without_answer(reason why, const message& what) noexcept {
  return {.outcome = verdict::no_answer, .why = {.why = why, .detail = what.destination_qpn}};
}

/// True if `what` goes to a multicast group. Their members are on this host and, by the wire, on
/// others.
[[nodiscard]] bool is_for_group(const message& what) noexcept;

/// Finds the way of `what`. Of a message to a multicast group, both members can be null: then the
/// members of the group are in this process only. Threads: inside an access epoch.
[[nodiscard]] route find_route(const queue_pair& sender, const message& what) noexcept;

/// Sends along a route. Without a route, returns `no_answer` with the reason. `earlier_done`: see
/// remote_path::submit.
[[nodiscard]] response send_along(const route& way, queue_pair& sender, const message& what,
                                  std::span<const segment> local, bool earlier_done) noexcept;

}  // namespace verbena::softdev
