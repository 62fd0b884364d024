// SPDX-License-Identifier: MIT
// The valid bits of a device's clock.
#pragma once

#include <cstdint>

#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the mask of the clock; all bits if the device does not report one. Queries the device
/// once.
[[nodiscard]] std::uint64_t clock_mask_of(const context& device);

}  // namespace verbena::inline VERBENA_ABI::detail
