// SPDX-License-Identifier: MIT
// Queue pairs are of a transport that has traits; other types are none.
// expect: transport<int>|transport.*int.*evaluated|constraint
#include "verbena/verbs/prepared_queue_pair.hpp"

#ifdef VERBENA_BAD
using kind = int;
#else
using kind = verbena::rc;
#endif
auto use(const verbena::protection_domain& pd, const verbena::completion_queue& cq) {
  return pd.create_queue_pair<kind>(cq, cq).has_value();
}
