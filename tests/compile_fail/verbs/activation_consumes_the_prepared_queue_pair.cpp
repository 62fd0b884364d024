// SPDX-License-Identifier: MIT
// Activation consumes the prepared queue pair.
// expect: discards qualifiers|rvalue|lvalue
#include <utility>

#include "verbena/verbs/prepared_queue_pair.hpp"

auto use(verbena::prepared_queue_pair<verbena::ud>& prepared) {
#ifdef VERBENA_BAD
  return prepared.activate(verbena::queue_key(1));
#else
  return std::move(prepared).activate(verbena::queue_key(1));
#endif
}
