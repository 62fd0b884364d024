// SPDX-License-Identifier: MIT
// The moderation period is a duration, not a number.
// expect-gcc: could not convert|cannot convert
// expect-clang: no viable conversion
#include "verbena/verbs/completion_queue.hpp"

verbena::result<void> use(const verbena::completion_queue& queue) {
#ifdef VERBENA_BAD
  return queue.moderate({.completions = 8, .period = 50});
#else
  return queue.moderate({.completions = 8, .period = std::chrono::microseconds(50)});
#endif
}
