// SPDX-License-Identifier: MIT
// A connection request is answered once: accept() and reject() consume it.
// expect: discards qualifiers|rvalue|lvalue
#include <utility>

#include "verbena/cm/listener.hpp"

auto use(verbena::cm::connection_request& request) {
#ifdef VERBENA_BAD
  return request.reject();
#else
  return std::move(request).reject();
#endif
}
