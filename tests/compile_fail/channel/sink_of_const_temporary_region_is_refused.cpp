// SPDX-License-Identifier: MIT
// A temporary region that a function returns as const cannot be the memory of a sink either.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include "verbena/channel/sink.hpp"

const verbena::memory_region make();

std::size_t use() {
#ifdef VERBENA_BAD
  return verbena::sink(make()).length();
#else
  const verbena::memory_region region = make();
  return verbena::sink(region).length();
#endif
}
