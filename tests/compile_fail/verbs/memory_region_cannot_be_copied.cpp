// SPDX-License-Identifier: MIT
// A memory region has one owner: it can be moved, not copied.
// expect-gcc: use of deleted function
// expect-clang: call to deleted constructor
#include <utility>

#include "verbena/verbs/memory_region.hpp"

verbena::memory_region use(verbena::memory_region region) {
#ifdef VERBENA_BAD
  verbena::memory_region other = region;
#else
  verbena::memory_region other = std::move(region);
#endif
  return other;
}
