// SPDX-License-Identifier: MIT
// Corrects defects of rxe's provider in rdma-core, which lose completions or send wrong lengths.
// The functions of a queue are replaced when the library creates the queue or adopts it with
// ownership::take.
#pragma once

#include <infiniband/verbs.h>

#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns whether `device` is rxe, the RoCE v2 software device of the kernel. Errors: those of
/// context::query().
[[nodiscard]] result<bool> is_rxe(const context& device);

/// Corrects ibv_next_poll and ibv_end_poll of a queue of rxe. If ibv_next_poll finds the queue
/// empty, rxe ends the poll, and ibv_end_poll skips one completion (rdma-core pull request 1512).
/// The replacement begins a new poll of the provider for each completion, which is also correct
/// without the defect.
void correct_polling(ibv_cq_ex& queue) noexcept;

/// Corrects the lists of a queue pair of rxe. rxe does not store the length of a list of inline
/// data (rdma-core pull request 1751); the replacement copies the data into one buffer. rxe
/// multiplies the length of the first slice (rdma-core pull request 1744); lists with different
/// lengths fail with ENOSPC.
void correct_lists(ibv_qp_ex& queue) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
