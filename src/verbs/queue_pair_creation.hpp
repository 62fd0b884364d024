// SPDX-License-Identifier: MIT
// Creation of native queue pairs, with the extended interface if the device has it.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <optional>

#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The queues of a queue pair; null for adopted queue pairs.
struct queue_parents {
  std::shared_ptr<completion_queue_state> send;
  std::shared_ptr<completion_queue_state> receive;
  std::shared_ptr<shared_receive_queue_state> shared;
  std::optional<bool> all_signaled;  ///< nullopt: unknown
};

[[nodiscard]] std::shared_ptr<queue_pair_state_object> make_queue_pair_state(
    ibv_qp* native, const protection_domain& pd, ownership owner, queue_parents with);

}  // namespace verbena::inline VERBENA_ABI::detail
