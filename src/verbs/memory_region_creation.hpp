// SPDX-License-Identifier: MIT
// The state of a new memory region.
#pragma once

#include <memory>

#include "src/verbs/memory_block.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/ownership.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// `memory` is what the library allocated for the region, or nullptr.
[[nodiscard]] std::shared_ptr<memory_region_state> make_memory_region_state(
    ibv_mr* native, const protection_domain& pd, std::shared_ptr<const memory_block> memory,
    ownership owner);

}  // namespace verbena::inline VERBENA_ABI::detail
