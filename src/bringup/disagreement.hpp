// SPDX-License-Identifier: MIT
// The texts of disagreements.
#pragma once

#include <string>

#include "verbena/bringup/agreement.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// Returns the fault and the remedy, as seen from the side of `ours`. docs/guide/connect.md lists
/// the texts.
[[nodiscard]] std::string words_of(mismatch reason, side whose, const offer& ours,
                                   const offer& theirs);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
