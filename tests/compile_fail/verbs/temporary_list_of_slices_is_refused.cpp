// SPDX-License-Identifier: MIT
// A list of slices is read at submit() and cannot be a temporary.
// expect: no matching (member )?function|constraint
#include <array>

#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::rc>& batch, const verbena::local_slice& slice) {
#ifdef VERBENA_BAD
  batch.send({}, std::array{slice, slice});
#else
  const std::array list{slice, slice};
  batch.send({}, list);
#endif
}
