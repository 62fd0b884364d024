// SPDX-License-Identifier: MIT
// An address handle is the route to a port; the destination of a datagram also names a queue pair.
// expect: no matching (member )?function|no known conversion|cannot convert
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::ud>& batch, const verbena::local_slice& slice,
         const verbena::address_handle& way) {
#ifdef VERBENA_BAD
  batch.send({}, slice, way);
#else
  batch.send({}, slice, way.destination(verbena::queue_pair_number(7), verbena::queue_key(9)));
#endif
}
