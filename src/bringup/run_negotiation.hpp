// SPDX-License-Identifier: MIT
// Carries the bytes of a negotiation over a stream.
#pragma once

#include "src/bringup/negotiation_core.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// Runs the negotiation until it waits for the program's receives or is finished. Errors: those of
/// the negotiation and of the stream.
[[nodiscard]] steps<void> run(negotiation_core& core, stream& peer, deadline until);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
