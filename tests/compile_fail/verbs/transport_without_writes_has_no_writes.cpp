// SPDX-License-Identifier: MIT
// Writes exist only for transports that support them.
// expect: no matching (member )?function|constraint
// parity: ibverbs-169, ibverbs-312
#include "verbena/verbs/extended_queue.hpp"

struct plain {};
template <>
struct verbena::transport_traits<plain> : verbena::transport_traits<verbena::rc> {
  static constexpr bool has_write = false;
};

void use(verbena::extended_batch<plain>& batch, const verbena::local_slice& slice,
         const verbena::remote_region& remote) {
#ifdef VERBENA_BAD
  batch.write({}, slice, remote);
#else
  batch.read({}, slice, remote);
#endif
}
