// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbena::softdev {

/// The RNR retry count that means: without limit.
inline constexpr std::uint8_t unlimited_rnr_retries = 7;

}  // namespace verbena::softdev
