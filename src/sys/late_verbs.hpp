// SPDX-License-Identifier: MIT
// The functions of the system's libefa and librdmacm, each loaded when the first of its functions
// is called: programs that use neither never have them in their process.
#pragma once

#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/efa_table.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// Sets all members of `table` to functions that load libefa. Where it cannot be loaded, or lacks a
/// function, calls report EOPNOTSUPP; efa_functions() says why.
void set_loading_efa(efa_table& table) noexcept;
/// Loads librdmacm on first use, for cm_functions().
void set_loading_cm(cm_table& table) noexcept;

}  // namespace verbena::inline VERBENA_ABI::sys
