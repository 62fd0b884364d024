// SPDX-License-Identifier: MIT
// A remote key belongs to one peer: an SRD write names its destination.
// expect: connected_transport|requires 4 arguments|expects 4 arguments|candidate expects
#include "verbena/efa/srd.hpp"

void use(verbena::extended_batch<verbena::efa::srd>& batch, const verbena::local_slice& slice,
         const verbena::remote_region& remote, const verbena::destination& at) {
#ifdef VERBENA_BAD
  static_cast<void>(at);
  batch.write({}, slice, remote);
#else
  batch.write({}, slice, remote, at);
#endif
}
