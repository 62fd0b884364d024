// SPDX-License-Identifier: MIT
// Options exist only for transports that support them: RC has no Q_Key.
// expect-gcc: could not convert
// expect-clang: does not refer to any field
// parity: ibverbs-171, ibverbs-311
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::rc> use() {
#ifdef VERBENA_BAD
  return {.queues = {.max_send_wr = 8}, .qkey = 17};
#else
  return {.queues = {.max_send_wr = 8}, .reliability = {.retry_count = 3}};
#endif
}
