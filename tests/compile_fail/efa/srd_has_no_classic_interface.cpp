// SPDX-License-Identifier: MIT
// SRD is posted only by extended(): a classic request has space for an address or for remote
// memory, not for both.
// expect: classic_transport
#include "verbena/efa/srd.hpp"

auto use(verbena::queue_pair<verbena::efa::srd>& queue) {
#ifdef VERBENA_BAD
  return queue.start_send();
#else
  return queue.extended();
#endif
}
