// SPDX-License-Identifier: MIT
// A result<bool> is not a condition: it would test for a value, and not the value itself.
// expect-gcc: could not convert
// expect-clang: no viable conversion
#include "verbena/base/result.hpp"

verbena::result<bool> is_disconnected();

int use() {
  const auto ended = is_disconnected();
#ifdef VERBENA_BAD
  if (ended) return 1;
#else
  if (ended.value()) return 1;
#endif
  return 0;
}
