// SPDX-License-Identifier: MIT
// A temporary connection has no qp(): it closes itself and flushes the queue pair.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include "verbena/cm/connection.hpp"

verbena::queue_pair<verbena::rc>& use(verbena::cm::connection& link) {
#ifdef VERBENA_BAD
  return std::move(link).qp();
#else
  return link.qp();
#endif
}
