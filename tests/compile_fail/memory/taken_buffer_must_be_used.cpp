// SPDX-License-Identifier: MIT
// A pool may be empty: the result of take() cannot be ignored.
// expect-gcc: ignoring return value
// expect-clang: ignoring return value
#include "verbena/memory/buffer_pool.hpp"

bool use(const verbena::buffer_pool& pool) {
#ifdef VERBENA_BAD
  pool.take(64);
  return true;
#else
  const auto taken = pool.take(64);
  return taken.has_value();
#endif
}
