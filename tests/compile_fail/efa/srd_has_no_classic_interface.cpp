// SPDX-License-Identifier: MIT
// Requests of the classic interface have room for an address or for remote memory, not for both:
// scalable reliable datagrams are posted by extended() alone.
// expect: classic_transport
#include "verbena/efa/srd.hpp"

auto use(verbena::queue_pair<verbena::efa::srd>& queue) {
#ifdef VERBENA_BAD
  return queue.start_send();
#else
  return queue.extended();
#endif
}
