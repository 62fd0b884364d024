// SPDX-License-Identifier: MIT
// The transition to RTR of a datagram queue pair takes no peer.
// expect: no matching|too many arguments|candidate expects 0
#include "verbena/verbs/prepared_queue_pair.hpp"

auto use(const verbena::prepared_queue_pair<verbena::ud>& prepared, const verbena::endpoint& peer) {
#ifdef VERBENA_BAD
  return prepared.rtr_attributes(peer);
#else
  static_cast<void>(peer);
  return prepared.rtr_attributes();
#endif
}
