// SPDX-License-Identifier: MIT
// Ignoring a result hides its error.
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
