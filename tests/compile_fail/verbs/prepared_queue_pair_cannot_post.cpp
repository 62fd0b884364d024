// SPDX-License-Identifier: MIT
// A prepared queue pair cannot post.
// expect: has no member|no member named
// parity: ibverbs-189
#include "verbena/verbs/prepared_queue_pair.hpp"

#ifdef VERBENA_BAD
void use(verbena::prepared_queue_pair<verbena::rc>& queue) {
#else
void use(verbena::queue_pair<verbena::rc>& queue) {
#endif
  static_cast<void>(queue.start_send());
}
