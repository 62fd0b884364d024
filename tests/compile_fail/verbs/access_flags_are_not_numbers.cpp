// SPDX-License-Identifier: MIT
// Access flags are a typed set, not a number.
// expect-gcc: could not convert|cannot convert
// expect-clang: no viable conversion|no known conversion
#include "verbena/verbs/protection_domain.hpp"

verbena::result<verbena::memory_region> use(const verbena::protection_domain& pd) {
#ifdef VERBENA_BAD
  return pd.allocate(4096, 1U);
#else
  return pd.allocate(4096, verbena::access_flags::from_mask(1U));
#endif
}
