// SPDX-License-Identifier: MIT
// The attributes of a queue pair in RESET, and the attributes that each state transition requires
// and permits.
#pragma once

#include <optional>

#include "softdev/core/attributes.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// Returns the attributes of a queue pair in RESET. Over SRD, programs cannot set the attributes
/// that RC negotiates, as with the driver of EFA: peers may read and write, and RNR retries are
/// unlimited.
[[nodiscard]] queue_pair_attributes initial_attributes(transport kind) noexcept;

struct transition {
  attribute_mask required;
  attribute_mask optional;
};

/// Returns the row of the transition table, as in the kernel's ib_modify_qp_is_ok
/// (drivers/infiniband/core/verbs.c, qp_state_table). Returns nullopt if there is no such
/// transition. Thread-safe; does not allocate.
[[nodiscard]] std::optional<transition> find_transition(transport kind, queue_pair_state from,
                                                        queue_pair_state to) noexcept;

}  // namespace verbena::softdev
