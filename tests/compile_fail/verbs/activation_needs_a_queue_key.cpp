// SPDX-License-Identifier: MIT
// Activation has no default Q_Key.
// expect: no matching|too few arguments
// parity: rrddmma-80
#include <utility>

#include "verbena/verbs/prepared_queue_pair.hpp"

auto use(verbena::prepared_queue_pair<verbena::ud>& prepared) {
#ifdef VERBENA_BAD
  return std::move(prepared).activate();
#else
  return std::move(prepared).activate(verbena::queue_key(1));
#endif
}
