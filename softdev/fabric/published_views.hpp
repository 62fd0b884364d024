// SPDX-License-Identifier: MIT
// The views of core/responder_checks, from the public segment of a process. Peers use them to check
// a request before they access memory themselves.
#pragma once

#include <cstdint>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/responder_checks.hpp"
#include "softdev/shm/segment.hpp"

namespace verbena::softdev {

/// Publishes the attributes of `which`, which is at `port`. Threads: with a lock of the queue pair
/// held.
void publish_queue_pair(public_segment& own, queue_pair& which, const port_state& port) noexcept;

/// Reads the view of the destination of `next`, a request of `sender`, into `out`. Returns false if
/// the destination is not published, or is changing. Sets `expected_psn` to the number of `next` if
/// both ends agreed on the first packet sequence number, because a request that its requester
/// executes uses no number. Threads: inside an active section.
[[nodiscard]] bool read_queue_pair(const peer_segment& at, const queue_pair& sender,
                                   const message& next, responder_view& out) noexcept;

/// Returns whether the next request raises an event of the published queue pair
/// (IBV_EVENT_COMM_EST), so that its process must execute the request. Threads: inside an active
/// section.
[[nodiscard]] bool awaits_first_request(const peer_segment& at,
                                        const responder_view& responder) noexcept;

/// Publishes the generation of the references of `which` that are valid.
void publish_generation(public_segment& own, const queue_pair& which,
                        std::uint64_t generation) noexcept;
/// Returns the generation that the queue pair `qpn` publishes; 0 if no reference is valid.
[[nodiscard]] std::uint64_t generation_of(const peer_segment& at, std::uint32_t qpn) noexcept;

/// Returns the view of a region that was found in a public segment.
[[nodiscard]] region_view view_of(const region_record& region) noexcept;

}  // namespace verbena::softdev
