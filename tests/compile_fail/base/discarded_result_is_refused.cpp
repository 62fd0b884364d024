// SPDX-License-Identifier: MIT
// A result that nobody looks at may hide an error.
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
