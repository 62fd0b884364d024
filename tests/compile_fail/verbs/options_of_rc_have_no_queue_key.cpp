// SPDX-License-Identifier: MIT
// Options exist only on the transports that they mean something to.
// expect-gcc: could not convert
// expect-clang: does not refer to any field
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::rc> use() {
#ifdef VERBENA_BAD
  return {.max_send_wr = 8, .qkey = 17};
#else
  return {.max_send_wr = 8, .retry_count = 3};
#endif
}
