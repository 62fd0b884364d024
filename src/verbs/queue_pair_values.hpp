// SPDX-License-Identifier: MIT
// Invalid values in a refused change of a queue pair. For use after a provider has refused the
// change: this code explains failures and does not check changes in advance.
#pragma once

#include <string>

#include "src/verbs/diagnosis.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the value of `changes` that the device does not support: a port, an index, an MTU or a
/// depth. Returns an empty string if there is no such value. Queries the device for its limits.
[[nodiscard]] std::string explain_values(queried_device device,
                                         const queue_pair_attributes& changes);

}  // namespace verbena::inline VERBENA_ABI::detail
