// SPDX-License-Identifier: MIT
// What peers see in the public segment of a process, as the views of core/responder_checks: they
// check a request before they access memory themselves.
#pragma once

#include <cstdint>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/responder_checks.hpp"
#include "softdev/shm/segment.hpp"

namespace verbena::softdev {

/// Publishes the attributes of `which`, which is at `port`. Threads: with a lock of the queue pair
/// held.
void publish_queue_pair(public_segment& own, const queue_pair& which,
                        const port_state& port) noexcept;

/// Reads the view of the destination of `next` into `out`; false if it is not published, or changes
/// at this moment. `expected_psn` is that of `next`, a request of `sender`, if both ends agreed on
/// the first packet sequence number: a request that is executed by its requester has none of its
/// own. Threads: inside an active section.
[[nodiscard]] bool read_queue_pair(const peer_segment& at, const queue_pair& sender,
                                   const message& next, responder_view& out) noexcept;

/// Publishes which references to memory of `which` are valid: those with this generation.
void publish_generation(public_segment& own, const queue_pair& which,
                        std::uint64_t generation) noexcept;
/// Returns what the queue pair `qpn` publishes; 0 if none is valid.
[[nodiscard]] std::uint64_t generation_of(const peer_segment& at, std::uint32_t qpn) noexcept;

/// Returns the view of a region that was found in a public segment.
[[nodiscard]] region_view view_of(const region_record& region) noexcept;

}  // namespace verbena::softdev
