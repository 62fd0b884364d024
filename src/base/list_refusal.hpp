// SPDX-License-Identifier: MIT
// The cause of ENOSPC at a post other than a full queue; src/verbs/rxe_defects.cpp returns it.
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

inline constexpr const char* refused_list =
    "; or the extended interface of rxe refused a list of slices with different lengths: use "
    "with_poster()";

}  // namespace verbena::inline VERBENA_ABI::detail
