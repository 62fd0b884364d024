// SPDX-License-Identifier: MIT
// The restrictions of soft0 as an Elastic Fabric Adapter, as in rdma-core's libefa and the kernel's
// driver.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/shim/operations.hpp"

namespace verbena::softdev {

/// Returns whether the context has the EFA persona. Only such contexts support the efadv functions.
[[nodiscard]] inline bool is_efa(ibv_context& context) noexcept {
  return object_of(&context).host->persona().kind == persona_kind::efa;
}

/// Checks the creation of a queue pair: UD or, through efadv, SRD; no SRQ; small queues. Returns 0
/// or an errno.
[[nodiscard]] int check_efa(const queue_pair_creation& what) noexcept;
/// Checks a modification: only attributes of unconnected queue pairs. Returns 0 or an errno.
[[nodiscard]] int check_efa_attributes(const ibv_qp_attr& wanted, int mask) noexcept;
/// Checks a work request. Returns 0 or an errno. The classic interface has only sends.
[[nodiscard]] int check_efa_request(const qp_object& qp, unsigned flags) noexcept;
[[nodiscard]] int check_efa_request(const qp_object& qp, const ibv_send_wr& request) noexcept;

}  // namespace verbena::softdev
