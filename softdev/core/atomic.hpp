// SPDX-License-Identifier: MIT
// The execution of atomic requests, by the responder or by the requester on its behalf.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softdev/core/message.hpp"

namespace verbena::softdev {

enum class atomic_outcome : std::uint8_t { done, misaligned, not_mapped };

/// Executes the atomic `what` on 8 bytes of payload. Sets `original` if it is executed.
/// Thread-safe, also against other processes that map the memory; does not allocate.
[[nodiscard]] atomic_outcome execute_atomic(std::byte* where, const message& what,
                                            std::uint64_t& original) noexcept;

}  // namespace verbena::softdev
