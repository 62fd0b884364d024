// SPDX-License-Identifier: MIT
// The functions of the system's libefa and librdmacm. Each library is loaded at the first call of
// one of its functions, so programs that do not use a library do not load it.
#pragma once

#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/efa_table.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// Sets all members of `table` to functions that load libefa. If libefa cannot be loaded or lacks a
/// function, calls report EOPNOTSUPP. efa_functions() returns the reason.
void set_loading_efa(efa_table& table) noexcept;
/// Sets all members of `table` to functions that load librdmacm. If librdmacm cannot be loaded or
/// lacks a function, calls report EOPNOTSUPP. cm_functions() returns the reason.
void set_loading_cm(cm_table& table) noexcept;

}  // namespace verbena::inline VERBENA_ABI::sys
