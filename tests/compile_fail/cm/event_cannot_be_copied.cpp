// SPDX-License-Identifier: MIT
// An event owns the request that it brings, so there is one of it.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include <utility>

#include "verbena/cm/event.hpp"

void use(verbena::cm::event& request) {
#ifdef VERBENA_BAD
  const auto copy = request;
#else
  const auto copy = std::move(request);
#endif
}
