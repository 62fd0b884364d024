// SPDX-License-Identifier: MIT
// UC has no atomic operations, because the response could be lost.
// expect: atomic_transport
// parity: ibverbs-250
#include "verbena/verbs/extended_queue.hpp"

#ifdef VERBENA_BAD
using unreliable_or_not = verbena::uc;
#else
using unreliable_or_not = verbena::rc;
#endif
void use(verbena::extended_batch<unreliable_or_not>& batch, const verbena::local_slice& before,
         const verbena::remote_region& target) {
  batch.fetch_and_add({}, before, target, 1);
}
