// SPDX-License-Identifier: MIT
// Each datagram names its destination: there is no default peer.
// expect: connected_transport|expects 3 arguments|requires 3 arguments|no matching
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::ud>& batch, const verbena::local_slice& slice,
         const verbena::destination& to) {
#ifdef VERBENA_BAD
  static_cast<void>(to);
  batch.send({}, slice);
#else
  batch.send({}, slice, to);
#endif
}
