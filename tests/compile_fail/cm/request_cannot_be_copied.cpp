// SPDX-License-Identifier: MIT
// A request has one owner, which answers it or rejects it by destroying it.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include <utility>

#include "verbena/cm/listener.hpp"

void use(verbena::cm::connection_request& request) {
#ifdef VERBENA_BAD
  const auto copy = request;
#else
  const auto copy = std::move(request);
#endif
}
