// SPDX-License-Identifier: MIT
// A temporary region deregisters its memory before a request with its slice has completed.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/protection_domain.hpp"

verbena::local_slice use(const verbena::protection_domain& pd) {
#ifdef VERBENA_BAD
  return pd.allocate(4096, {}).value().element<int>(1);
#else
  const auto region = pd.allocate(4096, {}).value();
  return region.element<int>(1);
#endif
}
