// SPDX-License-Identifier: MIT
// The attributes of a queue pair in RESET, and which ones each change of its state needs and takes.
#pragma once

#include <optional>

#include "softdev/core/attributes.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// What a queue pair has in RESET. The driver of EFA lets nobody set what RC negotiates: peers have
/// all rights, and RNR retries are unlimited.
[[nodiscard]] queue_pair_attributes initial_attributes(transport kind) noexcept;

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
