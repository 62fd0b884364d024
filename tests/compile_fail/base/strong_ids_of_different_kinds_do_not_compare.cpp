// SPDX-License-Identifier: MIT
// Keys of different kinds cannot be compared.
// expect-gcc: no match for .operator==.
// expect-clang: invalid operands to binary expression
#include "verbena/base/ids.hpp"

bool use(verbena::remote_key a, verbena::local_key b) {
#ifdef VERBENA_BAD
  return a == b;
#else
  return a.value() == b.value();
#endif
}
