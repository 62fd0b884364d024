// SPDX-License-Identifier: MIT
// Adopting a C object states its owner: there is no default.
// expect-gcc: no matching function|too few arguments
// expect-clang: too few arguments|no matching function
// parity: rrddmma-7
#include "verbena/verbs/protection_domain.hpp"

verbena::protection_domain use(ibv_pd* native, const verbena::context& of) {
#ifdef VERBENA_BAD
  return verbena::protection_domain::adopt(native, of);
#else
  return verbena::protection_domain::adopt(native, of, verbena::ownership::borrow);
#endif
}
