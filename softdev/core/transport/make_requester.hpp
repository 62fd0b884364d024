// SPDX-License-Identifier: MIT
// The send side of a queue pair by its transport.
#pragma once

#include <cstddef>

#include "softdev/core/requester.hpp"

namespace verbena::softdev {

/// Returns the bytes of the send side of a transport, without its queue.
[[nodiscard]] std::size_t requester_bytes(transport kind) noexcept;
/// Creates the send side of `self` in `room`, which is aligned to a cache line. `self` outlives it.
/// `queue` is the memory of its queue; if it is nullptr, the queue allocates. The caller destroys
/// the send side.
[[nodiscard]] requester* make_requester(queue_pair& self, const queue_pair_options& options,
                                        std::byte* room, std::byte* queue);

}  // namespace verbena::softdev
