// SPDX-License-Identifier: MIT
// A receive names registered memory, not inline data.
// expect: memory_slices|no matching|constraint
#include "verbena/verbs/shared_receive_queue.hpp"

void use(const verbena::shared_receive_queue& queue, const verbena::local_slice& slice,
         const verbena::inline_data& data) {
#ifdef VERBENA_BAD
  static_cast<void>(slice);
  static_cast<void>(queue.post_receive({}, data));
#else
  static_cast<void>(data);
  static_cast<void>(queue.post_receive({}, slice));
#endif
}
