// SPDX-License-Identifier: MIT
// A call can fail: its result cannot be ignored.
// expect: an error may be inside: check it, pass it on, or call value\(\)
#include "verbena/base/result.hpp"

verbena::result<int> attempt();

void use() {
#ifdef VERBENA_BAD
  attempt();
#else
  attempt().value();
#endif
}
