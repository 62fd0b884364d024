// SPDX-License-Identifier: MIT
// An identifier supports arithmetic only through value().
// expect-gcc: cannot convert
// expect-clang: no viable conversion
#include "verbena/base/ids.hpp"

std::uint32_t use(verbena::remote_key key) {
#ifdef VERBENA_BAD
  const std::uint32_t number = key;
#else
  const std::uint32_t number = key.value();
#endif
  return number;
}
