// SPDX-License-Identifier: MIT
// The current completion of an extended completion queue is valid until ibv_next_poll, and cannot
// be copied.
// expect-gcc: use of deleted function
// expect-clang: call to deleted constructor
#include <cstdint>
#include <vector>

#include "verbena/verbs/extended_completion_queue.hpp"

std::uint64_t use(const verbena::extended_completion_queue& queue) {
  std::uint64_t last = 0;
  for (const auto& done : queue.poll()) {
#ifdef VERBENA_BAD
    const auto kept = done;
    last = kept.id();
#else
    last = done.id();
#endif
  }
  return last;
}
