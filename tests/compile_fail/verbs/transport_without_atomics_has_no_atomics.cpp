// SPDX-License-Identifier: MIT
// Atomic operations exist only for transports that support them.
// expect: no matching (member )?function|constraint
// parity: ibverbs-312
#include "verbena/verbs/send_batch.hpp"

struct plain {};
template <>
struct verbena::transport_traits<plain> : verbena::transport_traits<verbena::rc> {
  static constexpr bool has_atomics = false;
};

void use(verbena::send_batch<plain>& batch, const verbena::local_slice& slice,
         const verbena::remote_region& remote) {
#ifdef VERBENA_BAD
  batch.fetch_and_add({}, slice, remote, 1);
#else
  batch.write({}, slice, remote);
#endif
}
