// SPDX-License-Identifier: MIT
// A datagram is not acknowledged: there is nothing to wait for.
// expect-gcc: could not convert|has no (non-static )?data member
// expect-clang: does not refer to any field
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::ud> use() {
#ifdef VERBENA_BAD
  return {.max_send_wr = 8, .timeout = {}};
#else
  return {.max_send_wr = 8, .pkey_index = 1};
#endif
}
