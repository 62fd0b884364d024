// SPDX-License-Identifier: MIT
// The offer of this side, made from the present state of the device and of the host.
#pragma once

#include "verbena/base/result.hpp"
#include "verbena/bringup/detail/negotiating_side.hpp"
#include "verbena/bringup/offer.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// The device of the side's queue pair, borrowed from it.
[[nodiscard]] context device_of(const negotiating_side& side);

/// The offer without a probe. Errors: those of the device's queries; ENODATA when the GID that was
/// chosen explicitly is not there. A port that is down is no error.
[[nodiscard]] result<offer> gather_offer(const negotiating_side& side);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
