// SPDX-License-Identifier: MIT
// UC does not retransmit: its options have no retry count.
// expect-gcc: could not convert|has no (non-static )?data member
// expect-clang: does not refer to any field
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::uc> use() {
#ifdef VERBENA_BAD
  return {.queues = {.max_send_wr = 8}, .reliability = {.retry_count = 3}};
#else
  return {.queues = {.max_send_wr = 8}, .route = {.path_mtu = verbena::mtu::bytes_1024}};
#endif
}
