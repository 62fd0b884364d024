// SPDX-License-Identifier: MIT
// After the activation there is one owner: the queue pair that it returned.
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
