// SPDX-License-Identifier: MIT
// Send operations are a typed set, not a number.
// expect: could not convert|cannot convert|no viable conversion|no known conversion
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::ud> use() {
#ifdef VERBENA_BAD
  return {.operations = 4};
#else
  return {.operations = verbena::send_operation::send};
#endif
}
