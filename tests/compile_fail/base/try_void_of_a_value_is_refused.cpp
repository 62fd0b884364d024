// SPDX-License-Identifier: MIT
// VERBENA_TRY_VOID takes no result with a value, for example completions, which would be lost.
// expect: the result has a value: use VERBENA_TRY
#include "verbena/base/result.hpp"

verbena::result<int> poll();

verbena::result<void> use() {
#ifdef VERBENA_BAD
  VERBENA_TRY_VOID(poll());
#else
  VERBENA_TRY_DISCARD(poll());
#endif
  return {};
}
