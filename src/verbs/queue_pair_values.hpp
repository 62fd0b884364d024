// SPDX-License-Identifier: MIT
// What a refused change of a queue pair may have wrong besides its set of attributes. Consulted
// only after a provider refused the change: it explains, it never refuses by itself.
#pragma once

#include <string>

#include "src/verbs/diagnosis.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Which value of `changes` the device cannot take: a port, an index, an MTU, a depth. Asks the
/// device for its limits. Empty if none is found.
[[nodiscard]] std::string explain_values(asked_device device, const queue_pair_attributes& changes);

}  // namespace verbena::inline VERBENA_ABI::detail
