// SPDX-License-Identifier: MIT
// The destination of a read is registered memory, not inline data.
// expect: no matching (member )?function|constraint
#include "verbena/base/bytes.hpp"
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::rc>& batch, const verbena::remote_region& remote,
         const verbena::local_slice& slice) {
#ifdef VERBENA_BAD
  const verbena::inline_data into(verbena::bytes_of("text"));
#else
  const verbena::local_slice& into = slice;
#endif
  batch.read({}, into, remote);
  static_cast<void>(slice);
}
