// SPDX-License-Identifier: MIT
// A connected queue pair has one peer: its messages have no destination.
// expect: datagram_transport
// parity: ibverbs-tests-90, ibverbs-313
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::rc>& batch, const verbena::local_slice& slice,
         const verbena::destination& to) {
#ifdef VERBENA_BAD
  batch.send({}, slice, to);
#else
  static_cast<void>(to);
  batch.send({}, slice);
#endif
}
