// SPDX-License-Identifier: MIT
// A slice of local memory does not name a peer's memory.
// expect-gcc: invalid initialization of reference
// expect-clang: no viable conversion|no known conversion
#include "verbena/verbs/memory_region.hpp"

inline std::uint64_t reach(const verbena::remote_region& region) { return region.address(); }

std::uint64_t use(const verbena::memory_region& region) {
#ifdef VERBENA_BAD
  return reach(region.slice());
#else
  return reach(region.remote());
#endif
}
