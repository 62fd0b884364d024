// SPDX-License-Identifier: MIT
// Operations are named; numbers may mean anything.
// expect: could not convert|cannot convert|no viable conversion|no known conversion
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::ud> use() {
#ifdef VERBENA_BAD
  return {.operations = 4};
#else
  return {.operations = verbena::send_operation::send};
#endif
}
