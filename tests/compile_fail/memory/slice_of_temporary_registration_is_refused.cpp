// SPDX-License-Identifier: MIT
// A temporary registration has no slice: the arena may deregister the memory afterwards.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include "verbena/memory/registered_arena.hpp"

verbena::local_slice use(const verbena::registered_arena& arena,
                         const verbena::cached_memory& memory) {
#ifdef VERBENA_BAD
  return arena.registered(memory, 0, 64, {}).value().slice();
#else
  const auto part = arena.registered(memory, 0, 64, {}).value();
  return part.slice();
#endif
}
