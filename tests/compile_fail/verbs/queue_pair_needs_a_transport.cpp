// SPDX-License-Identifier: MIT
// The transport of a queue pair is a type with transport traits.
// expect: transport<int>|transport.*int.*evaluated|constraint
// parity: rrddmma-62
#include "verbena/verbs/prepared_queue_pair.hpp"

#ifdef VERBENA_BAD
using kind = int;
#else
using kind = verbena::rc;
#endif
auto use(const verbena::protection_domain& pd, const verbena::completion_queue& cq) {
  return pd.create_qp<kind>(cq, cq).has_value();
}
