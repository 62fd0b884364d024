// SPDX-License-Identifier: MIT
// The value, for example completions, would be lost.
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
