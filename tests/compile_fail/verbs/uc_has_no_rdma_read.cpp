// SPDX-License-Identifier: MIT
// A read needs an answer, which an unreliable connection may lose.
// expect: reading_transport
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::uc>& batch, const verbena::local_slice& slice,
         const verbena::remote_region& remote) {
#ifdef VERBENA_BAD
  batch.read({}, slice, remote);
#else
  batch.write({}, slice, remote);
#endif
}
