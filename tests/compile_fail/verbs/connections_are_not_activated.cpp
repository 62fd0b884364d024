// SPDX-License-Identifier: MIT
// A connected queue pair is of no use without a peer.
// expect: no member named .activate|has no member named .activate
#include <utility>

#include "verbena/verbs/prepared_queue_pair.hpp"

auto use(verbena::prepared_queue_pair<verbena::uc>& prepared, const verbena::endpoint& peer) {
#ifdef VERBENA_BAD
  static_cast<void>(peer);
  return std::move(prepared).activate(verbena::queue_key(1));
#else
  return std::move(prepared).handshake(peer);
#endif
}
