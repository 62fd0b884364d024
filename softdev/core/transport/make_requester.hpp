// SPDX-License-Identifier: MIT
// The send side of a queue pair by its transport.
#pragma once

#include <cstddef>

#include "softdev/core/requester.hpp"

namespace verbena::softdev {

/// The bytes of the send side of a transport, without its queue.
[[nodiscard]] std::size_t requester_bytes(transport kind) noexcept;
/// Makes the send side of `self`, which outlives it, in `room`, which is aligned to a cache line.
/// `queue`: the memory of its queue; if it is nullptr, allocates that. The caller destroys it.
[[nodiscard]] requester* make_requester(queue_pair& self, const queue_pair_options& options,
                                        std::byte* room, std::byte* queue);

}  // namespace verbena::softdev
