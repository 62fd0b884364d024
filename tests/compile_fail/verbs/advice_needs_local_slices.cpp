// SPDX-License-Identifier: MIT
// Advice applies to local memory, not to a peer's memory.
// expect-gcc: could not convert|cannot convert|no matching function
// expect-clang: no viable conversion|no matching member function
#include <array>

#include "verbena/verbs/protection_domain.hpp"

verbena::result<void> use(const verbena::protection_domain& pd,
                          const verbena::memory_region& memory) {
#ifdef VERBENA_BAD
  const std::array parts{memory.remote()};
#else
  const std::array parts{memory.slice()};
#endif
  return pd.advise(verbena::memory_advice::prefetch, parts);
}
