// SPDX-License-Identifier: MIT
// A device's clock begins again at 0, so its times lie on a circle: `<` would be wrong once a wrap.
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
