// SPDX-License-Identifier: MIT
// Which attributes a change of state needs and allows. Consulted only after a provider refused a
// change with EINVAL: it explains, it never refuses by itself.
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

/// What is wrong with changing these attributes: `there is no transition from RTS to INIT`, or the
/// missing and the disallowed attributes. Empty if nothing is, and for types of queue pairs that no
/// specification describes.
[[nodiscard]] std::string explain_transition(transition change, queue_pair_attribute_mask mask);

}  // namespace verbena::inline VERBENA_ABI::detail
