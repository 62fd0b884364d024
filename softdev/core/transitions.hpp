// SPDX-License-Identifier: MIT
// Which attributes each change of a queue pair's state needs and takes.
#pragma once

#include <optional>

#include "softdev/core/types.hpp"

namespace verbena::softdev {

struct transition {
  attribute_mask required;
  attribute_mask optional;
};

/// The row of the transition table, as the kernel's ib_modify_qp_is_ok has it
/// (drivers/infiniband/core/verbs.c, qp_state_table); nothing when there is no such transition.
/// Thread-safe; does not allocate.
[[nodiscard]] std::optional<transition> find_transition(transport kind, queue_pair_state from,
                                                        queue_pair_state to) noexcept;

}  // namespace verbena::softdev
