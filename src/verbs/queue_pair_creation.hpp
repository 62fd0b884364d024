// SPDX-License-Identifier: MIT
// Making native queue pairs, on the extended interface where there is one.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// What a queue pair completes into; empty for adopted ones.
struct completion_parents {
  std::shared_ptr<completion_queue_state> send;
  std::shared_ptr<completion_queue_state> receive;
};

[[nodiscard]] std::shared_ptr<queue_pair_state_object> make_queue_pair_state(
    ibv_qp* native, const protection_domain& pd, ownership owner, completion_parents into);

}  // namespace verbena::inline VERBENA_ABI::detail
