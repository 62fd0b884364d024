// SPDX-License-Identifier: MIT
// A temporary cannot be the memory of a source.
// expect-gcc: use of deleted function
// expect-clang: deleted
// parity: ibverbs-rs-11
#include "verbena/channel/source.hpp"

std::size_t use(verbena::memory_region& region) {
#ifdef VERBENA_BAD
  return verbena::source(std::move(region)).length();
#else
  return verbena::source(region).length();
#endif
}
