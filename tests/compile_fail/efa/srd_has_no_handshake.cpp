// SPDX-License-Identifier: MIT
// An SRD queue pair has no single peer: it is activated, not connected.
// expect: no member named .handshake
#include <utility>

#include "verbena/efa/srd.hpp"

auto use(verbena::prepared_queue_pair<verbena::efa::srd>& prepared, const verbena::endpoint& peer) {
#ifdef VERBENA_BAD
  return std::move(prepared).handshake(peer);
#else
  static_cast<void>(peer);
  return std::move(prepared).activate(verbena::queue_key(1));
#endif
}
