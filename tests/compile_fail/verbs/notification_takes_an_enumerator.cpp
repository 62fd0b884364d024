// SPDX-License-Identifier: MIT
// Arming names the kind of completions by an enumerator, not by a boolean.
// expect-gcc: cannot convert|could not convert
// expect-clang: cannot initialize a parameter|no viable conversion
#include "verbena/verbs/completion_queue.hpp"

verbena::result<void> use(const verbena::completion_queue& queue) {
#ifdef VERBENA_BAD
  return queue.request_notification(true);
#else
  return queue.request_notification(verbena::notify::solicited_only);
#endif
}
