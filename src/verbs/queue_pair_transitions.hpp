// SPDX-License-Identifier: MIT
// Required and optional attributes of state transitions. For use after a provider has refused a
// transition with EINVAL: this code explains failures and does not check transitions in advance.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "verbena/verbs/queue_pair_attributes.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A change of a queue pair's state.
struct transition {
  ibv_qp_type type;
  queue_pair_state from;
  queue_pair_state to;
};

/// Returns why a transition with these attributes is invalid: `there is no transition from RTS to
/// INIT`, or the missing and the disallowed attributes. Returns an empty string for valid
/// transitions and for types of queue pairs without a specification.
[[nodiscard]] std::string explain_transition(transition change, queue_pair_attribute_mask mask);

}  // namespace verbena::inline VERBENA_ABI::detail
