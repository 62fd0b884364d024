// SPDX-License-Identifier: MIT
// A temporary cannot be the memory of a sink or a source.
// expect-gcc: use of deleted function
// expect-clang: deleted
// parity: ibverbs-rs-11
#include "verbena/channel/sink.hpp"

std::size_t use(verbena::memory_region& region) {
#ifdef VERBENA_BAD
  return verbena::sink(std::move(region)).length();
#else
  return verbena::sink(region).length();
#endif
}
