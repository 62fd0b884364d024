// SPDX-License-Identifier: MIT
// Where soft0 as an Elastic Fabric Adapter takes less than it does otherwise, as rdma-core's libefa
// and the kernel's driver do it.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/shim/operations.hpp"

namespace verbena::softdev {

/// True for contexts of the EFA persona, which alone have the efadv functions.
[[nodiscard]] inline bool is_efa(ibv_context& context) noexcept {
  return object_of(&context).host->looks().kind == persona_kind::efa;
}

/// The errno that refuses a queue pair, or 0: only UD, and SRD through efadv; no SRQ; small queues.
[[nodiscard]] int check_efa(const queue_pair_creation& what) noexcept;
/// The errno that refuses a modification, or 0: only what unconnected queue pairs have.
[[nodiscard]] int check_efa_attributes(const ibv_qp_attr& wanted, int mask) noexcept;
/// The errno that refuses a request, or 0. In the classic interface there are sends alone.
[[nodiscard]] int check_efa_request(const qp_object& qp, unsigned flags) noexcept;
[[nodiscard]] int check_efa_request(const qp_object& qp, const ibv_send_wr& request) noexcept;

}  // namespace verbena::softdev
