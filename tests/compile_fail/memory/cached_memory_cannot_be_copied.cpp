// SPDX-License-Identifier: MIT
// Memory of a registration cache has one owner, whose end ends its registrations.
// expect-gcc: use of deleted function
// expect-clang: call to (implicitly-)?deleted
#include "verbena/memory/registration_cache.hpp"

verbena::cached_memory use(verbena::cached_memory& mine) {
#ifdef VERBENA_BAD
  verbena::cached_memory other = mine;
#else
  verbena::cached_memory other = std::move(mine);
#endif
  return other;
}
