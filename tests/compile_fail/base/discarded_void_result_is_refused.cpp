// SPDX-License-Identifier: MIT
// A call that returns nothing but success or an error is checked like any other.
// expect: an error may be inside: check it, pass it on, or call value\(\)
#include "verbena/base/result.hpp"

verbena::result<void> attempt();

void use() {
#ifdef VERBENA_BAD
  attempt();
#else
  attempt().value();
#endif
}
