// SPDX-License-Identifier: MIT
// A queue pair has one owner: it can be moved, not copied.
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
