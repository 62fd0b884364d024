// SPDX-License-Identifier: MIT
// A read generates no completion at the peer: it has no immediate data.
// expect: no member named .read_with_immediate.
// parity: ibverbs-249
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::rc>& batch, const verbena::remote_region& remote,
         const verbena::local_slice& slice) {
#ifdef VERBENA_BAD
  batch.read_with_immediate({}, 7, slice, remote);
#else
  batch.write_with_immediate({}, 7, slice, remote);
#endif
}
