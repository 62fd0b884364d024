// SPDX-License-Identifier: MIT
// The path to queue pairs of this process: the requester's thread calls the responder.
#pragma once

#include <span>

#include "softdev/core/copy.hpp"
#include "softdev/core/message.hpp"

namespace verbena::softdev {

class queue_pair;

/// Executes `what` at `target` and returns its answer. `local` is the payload of a send or write,
/// or the sinks of a read or atomic. Takes the receive lock of `target`. The caller holds the
/// sender's send lock and is inside an access epoch. Does not allocate.
[[nodiscard]] response execute_in_process(queue_pair& target, const message& what,
                                          std::span<const segment> local) noexcept;

/// The outcome of a copy to or from several pieces, and the piece at which a fault occurred.
struct pieces_copied {
  copy_fault fault = copy_fault::none;
  const std::byte* piece = nullptr;
};

/// Copies `bytes` to `offset` of the concatenated `sinks`. Bytes that do not fit are dropped.
[[nodiscard]] pieces_copied scatter(std::span<const segment> sinks, std::uint64_t offset,
                                    std::span<const std::byte> bytes) noexcept;

}  // namespace verbena::softdev
