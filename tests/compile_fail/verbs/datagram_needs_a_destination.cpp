// SPDX-License-Identifier: MIT
// Each datagram names its destination: there is no default peer.
// expect: connected_transport|expects 3 arguments|requires 3 arguments|no matching
// parity: ibverbs-tests-91, ibverbs-251, ibverbs-313, rrddmma-79
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
