// SPDX-License-Identifier: MIT
// What a disagreement says to the one who reads it.
#pragma once

#include <string>

#include "verbena/bringup/agreement.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// What is wrong and what to do, seen from the side of `ours`. The texts stand in
/// docs/guide/connect.md.
[[nodiscard]] std::string words_of(obstacle reason, side whose, const offer& ours,
                                   const offer& theirs);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
