// SPDX-License-Identifier: MIT
// Creates the offer of this side from the present state of the device and the host.
#pragma once

#include "verbena/base/result.hpp"
#include "verbena/bringup/detail/negotiating_side.hpp"
#include "verbena/bringup/offer.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// Returns the device of the side's queue pair, without ownership.
[[nodiscard]] context device_of(const negotiating_side& side);

/// Returns the offer without a probe queue pair. Errors: those of querying the device; ENODATA if
/// the GID table does not contain the explicitly chosen GID. A port that is down is not an error.
[[nodiscard]] result<offer> gather_offer(const negotiating_side& side);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
