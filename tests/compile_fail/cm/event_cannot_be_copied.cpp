// SPDX-License-Identifier: MIT
// An event owns its connection request and cannot be copied.
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
