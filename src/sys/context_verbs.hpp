// SPDX-License-Identifier: MIT
// The inline functions of verbs.h that would reference exported symbols, done on the context's own
// table instead.
#pragma once

#include "verbena/sys/verbs_table.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// Sets the members of `table` that never come from a library.
void set_context_verbs(verbs_table& table) noexcept;

}  // namespace verbena::inline VERBENA_ABI::sys
