// SPDX-License-Identifier: MIT
// SRD does not support shared receive queues.
// expect: shared_receive_transport
// parity: ibverbs-267
#include "verbena/efa/srd.hpp"

auto use(const verbena::protection_domain& pd, const verbena::completion_queue& cq,
         const verbena::shared_receive_queue& shared) {
#ifdef VERBENA_BAD
  return pd.create_qp<verbena::efa::srd>(cq, cq, shared);
#else
  static_cast<void>(shared);
  return pd.create_qp<verbena::efa::srd>(cq, cq);
#endif
}
