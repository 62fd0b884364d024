// SPDX-License-Identifier: MIT
// A result does not convert to its value implicitly.
// expect-gcc: cannot convert
// expect-clang: no viable conversion
#include "verbena/base/result.hpp"

verbena::result<int> attempt();

int use() {
#ifdef VERBENA_BAD
  const int number = attempt();
#else
  const int number = attempt().value();
#endif
  return number;
}
