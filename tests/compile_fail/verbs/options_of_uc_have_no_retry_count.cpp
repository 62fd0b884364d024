// SPDX-License-Identifier: MIT
// An unreliable connection sends nothing again.
// expect-gcc: could not convert|has no (non-static )?data member
// expect-clang: does not refer to any field
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::uc> use() {
#ifdef VERBENA_BAD
  return {.max_send_wr = 8, .retry_count = 3};
#else
  return {.max_send_wr = 8, .path_mtu = verbena::mtu::bytes_1024};
#endif
}
