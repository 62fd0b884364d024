// SPDX-License-Identifier: MIT
// UD only sends: it has no writes.
// expect: writing_transport|connected_transport
// parity: ibverbs-252, rrddmma-64
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::ud>& datagrams, verbena::send_batch<verbena::uc>& connection,
         const verbena::local_slice& slice, const verbena::remote_region& remote) {
#ifdef VERBENA_BAD
  static_cast<void>(connection);
  datagrams.write({}, slice, remote);
#else
  static_cast<void>(datagrams);
  connection.write({}, slice, remote);
#endif
}
