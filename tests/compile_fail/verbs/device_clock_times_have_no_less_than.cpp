// SPDX-License-Identifier: MIT
// A device clock wraps around: its times have no `<`.
// expect-gcc: no match for .operator<.
// expect-clang: invalid operands to binary expression
#include "verbena/verbs/device_clock.hpp"

bool use(verbena::device_clock_time first, verbena::device_clock_time second) {
#ifdef VERBENA_BAD
  return first < second;
#else
  return first.is_before(second);
#endif
}
