// SPDX-License-Identifier: MIT
// The functions of the system's libefa, which is loaded when the first of them is called: programs
// without EFA never have it in their process.
#pragma once

#include "verbena/sys/efa_table.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// Sets all members of `table` to functions that load libefa. Where it cannot be loaded, or lacks a
/// function, calls report EOPNOTSUPP; efa_functions() says why.
void set_loading_efa(efa_table& table) noexcept;

}  // namespace verbena::inline VERBENA_ABI::sys
