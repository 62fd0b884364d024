// SPDX-License-Identifier: MIT
// The third argument of create_qp() is a shared receive queue, not a completion queue.
// expect: no matching|cannot convert|no known conversion
#include "verbena/verbs/prepared_queue_pair.hpp"

auto use(const verbena::protection_domain& pd, const verbena::completion_queue& cq,
         const verbena::shared_receive_queue& shared) {
#ifdef VERBENA_BAD
  static_cast<void>(shared);
  return pd.create_qp<verbena::rc>(cq, cq, cq).has_value();
#else
  return pd.create_qp<verbena::rc>(cq, cq, shared).has_value();
#endif
}
