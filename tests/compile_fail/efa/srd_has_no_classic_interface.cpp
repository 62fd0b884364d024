// SPDX-License-Identifier: MIT
// SRD requests are posted only through extended(): ibv_send_wr has room for an address handle or
// for remote memory, not for both.
// expect: classic_transport
#include "verbena/efa/srd.hpp"

auto use(verbena::queue_pair<verbena::efa::srd>& queue) {
#ifdef VERBENA_BAD
  return queue.start_send();
#else
  return queue.extended();
#endif
}
