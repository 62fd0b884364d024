// SPDX-License-Identifier: MIT
// The meaning of each vendor error code, independent of a failed request.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::softdev {

/// Writes four lines: the name of the code, the completion statuses with which it appears, the
/// check that failed, and the remedy. Writes at most `capacity` bytes with a terminating zero to
/// `text`. Returns the length of the whole description like snprintf(3), or 0 if there is no such
/// code. Does not allocate.
std::size_t describe_code(std::uint32_t code, char* text, std::size_t capacity) noexcept;

}  // namespace verbena::softdev
