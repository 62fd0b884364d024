// SPDX-License-Identifier: MIT
// The routes of requests, for all transports.
#pragma once

#include "softdev/core/message.hpp"
#include "softdev/core/remote_path.hpp"

namespace verbena::softdev {

/// A queue pair of this process, or the path to other processes, or the reason for having neither.
struct route {
  queue_pair* here = nullptr;
  remote_path* away = nullptr;
  reason why = reason::none;
};

/// Returns the response to the sender of `what` if its destination does not answer.
[[nodiscard]] inline response without_answer(reason why, const message& what) noexcept {
  return {.outcome = verdict::no_answer, .why = {.why = why, .detail = what.destination_qpn}};
}

/// Returns whether `what` is for a multicast group. Members are on this host and, by the wire, on
/// others.
[[nodiscard]] bool is_for_group(const message& what) noexcept;

/// Finds the route of `what`. For a multicast group, both pointers can be null: then all members of
/// the group are in this process. Threads: inside an access epoch.
[[nodiscard]] route find_route(const queue_pair& sender, const message& what) noexcept;

/// Sends `what` along a route. Without a route, returns `no_answer` with the reason.
/// `earlier_done`: see remote_path::submit.
[[nodiscard]] response send_along(const route& way, queue_pair& sender, const message& what,
                                  std::span<const segment> local, bool earlier_done) noexcept;

}  // namespace verbena::softdev
