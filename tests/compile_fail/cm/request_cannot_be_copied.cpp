// SPDX-License-Identifier: MIT
// A connection request has one owner. Destroying an unanswered request rejects it.
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
