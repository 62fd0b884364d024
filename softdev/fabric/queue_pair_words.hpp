// SPDX-License-Identifier: MIT
// The attributes of a queue pair in the public segment of its process, as its peers check them
// before they access memory themselves.
#pragma once

#include <cstdint>
#include <optional>

#include "softdev/core/admission.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/shm/segment.hpp"

namespace verbena::softdev {

/// Publishes the attributes of `which`, which is at `port`. Threads: with a lock of the queue pair
/// held.
void publish_words(public_segment& own, const queue_pair& which, const port_state& port) noexcept;

/// What the words say of a queue pair. `expected_psn` is that of `next`, a request of `sender`, if
/// both ends agreed on the first packet sequence number: a request that is executed by its
/// requester has none of its own.
struct published_queue_pair {
  responder_view view;
  domain_id domain{};
};
/// Reads the words of the destination of `next`; `nullopt` if it is not published, or changes at
/// this moment. Threads: inside an active section.
[[nodiscard]] std::optional<published_queue_pair> read_words(const peer_segment& at,
                                                             const queue_pair& sender,
                                                             const message& next) noexcept;

}  // namespace verbena::softdev
