// SPDX-License-Identifier: MIT
// One thread at a time uses a queue pair: it cannot be copied.
// expect: use of deleted function|implicitly deleted|deleted constructor
#include <utility>

#include "verbena/verbs/queue_pair.hpp"

verbena::queue_pair<verbena::rc> use(verbena::queue_pair<verbena::rc>& queue) {
#ifdef VERBENA_BAD
  return queue;
#else
  return std::move(queue);
#endif
}
