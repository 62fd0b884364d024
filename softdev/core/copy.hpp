// SPDX-License-Identifier: MIT
// The one function that moves payload. It is not instrumented by sanitizers and calls no memcpy
// (which they intercept): to the program, its memory changes as if an adapter had written it.
#pragma once

#include <cstddef>

namespace verbena::softdev {

/// Copies in ascending order. An aligned quantity of 8 bytes at the destination is one store, and
/// the last bytes are stored last, after all others are visible. Ranges must not overlap unless
/// `to` <= `from`. Thread-safe; does not allocate.
void copy_payload(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace verbena::softdev
