// SPDX-License-Identifier: MIT
// UC has no reads, because the response could be lost.
// expect: reading_transport
// parity: ibverbs-250
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::uc>& batch, const verbena::local_slice& slice,
         const verbena::remote_region& remote) {
#ifdef VERBENA_BAD
  batch.read({}, slice, remote);
#else
  batch.write({}, slice, remote);
#endif
}
