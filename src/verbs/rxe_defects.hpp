// SPDX-License-Identifier: MIT
// Defects of rxe's provider in rdma-core, which would lose completions or send wrong lengths. The
// functions of the queues are replaced when the library creates or takes them.
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
/// Each completion becomes one poll of the provider, which is correct without the defect too.
void correct_polling(ibv_cq_ex& queue) noexcept;

/// Corrects the lists of a queue pair of rxe. rxe does not store the length of a list of inline
/// data (rdma-core pull request 1751): the data is gathered first. rxe multiplies the length of the
/// first slice (rdma-core pull request 1744): lists with different lengths fail with ENOSPC.
void correct_lists(ibv_qp_ex& queue) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
