// SPDX-License-Identifier: MIT
// Registration has no default access flags.
// expect-gcc: no matching function|too few arguments
// expect-clang: too few arguments|no matching function
// parity: ibverbs-139, rrddmma-37
#include "verbena/verbs/protection_domain.hpp"

verbena::result<verbena::memory_region> use(const verbena::protection_domain& pd) {
#ifdef VERBENA_BAD
  return pd.allocate(4096);
#else
  return pd.allocate(4096, verbena::access::local_write);
#endif
}
