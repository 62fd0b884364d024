// SPDX-License-Identifier: MIT
// What a disagreement says to the one who reads it.
#pragma once

#include <string>

#include "verbena/bringup/agreement.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// The fault and the remedy, for the side of `ours`. The texts stand in
/// docs/guide/connect.md.
[[nodiscard]] std::string words_of(mismatch reason, side whose, const offer& ours,
                                   const offer& theirs);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
