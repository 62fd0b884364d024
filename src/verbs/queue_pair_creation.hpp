// SPDX-License-Identifier: MIT
// Creation of native queue pairs, with the extended interface if the device has it.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the state object of a queue pair that was created without the library.
[[nodiscard]] std::shared_ptr<queue_pair_state_object> adopt_queue_pair_state(
    ibv_qp* native, const protection_domain& pd, ownership owner);

}  // namespace verbena::inline VERBENA_ABI::detail
