// SPDX-License-Identifier: MIT
// Pieces of text that several modules print.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// `0x1a2b`.
[[nodiscard]] std::string hexadecimal(std::uint64_t value);

}  // namespace verbena::inline VERBENA_ABI::detail
