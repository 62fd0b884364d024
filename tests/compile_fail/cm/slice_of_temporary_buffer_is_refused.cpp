// SPDX-License-Identifier: MIT
// A temporary buffer deregisters its memory before a request with its slice has completed.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include "verbena/cm/local_buffer.hpp"

verbena::local_slice use(verbena::result<verbena::cm::local_buffer> created) {
#ifdef VERBENA_BAD
  return std::move(created).value().slice();
#else
  const auto buffer = std::move(created).value();
  return buffer.slice();
#endif
}
