// SPDX-License-Identifier: MIT
// Formatting that several modules share.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Formats a number like `0x1a2b`.
[[nodiscard]] std::string hexadecimal(std::uint64_t value);

}  // namespace verbena::inline VERBENA_ABI::detail
