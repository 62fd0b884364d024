// SPDX-License-Identifier: MIT
// The bits that a device's clock counts in.
#pragma once

#include <cstdint>

#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The mask, asked of the device once; all bits when it does not say.
[[nodiscard]] std::uint64_t clock_mask_of(const context& device);

}  // namespace verbena::inline VERBENA_ABI::detail
