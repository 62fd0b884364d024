// SPDX-License-Identifier: MIT
// Datagrams are not acknowledged: their options have no timeout.
// expect-gcc: could not convert|has no (non-static )?data member
// expect-clang: does not refer to any field
// parity: ibverbs-tests-89, ibverbs-171
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::ud> use() {
#ifdef VERBENA_BAD
  return {.queues = {.max_send_wr = 8}, .reliability = {.timeout = {}}};
#else
  return {.queues = {.max_send_wr = 8}, .route = {.pkey_index = 1}};
#endif
}
