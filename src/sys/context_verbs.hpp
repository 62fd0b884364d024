// SPDX-License-Identifier: MIT
// Replacements for the inline functions of verbs.h that would reference exported symbols. The
// replacements call the functions in the context's own table.
#pragma once

#include "verbena/sys/verbs_table.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// Sets the members of `table` that call the functions in the context's own table.
void set_context_verbs(verbs_table& table) noexcept;

}  // namespace verbena::inline VERBENA_ABI::sys
