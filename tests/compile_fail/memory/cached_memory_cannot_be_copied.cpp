// SPDX-License-Identifier: MIT
// Memory of a registered arena has one owner, and its destruction ends the registrations.
// expect-gcc: use of deleted function
// expect-clang: call to (implicitly-)?deleted
#include "verbena/memory/registered_arena.hpp"

verbena::cached_memory use(verbena::cached_memory& mine) {
#ifdef VERBENA_BAD
  verbena::cached_memory other = mine;
#else
  verbena::cached_memory other = std::move(mine);
#endif
  return other;
}
