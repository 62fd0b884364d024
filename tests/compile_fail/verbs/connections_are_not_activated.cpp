// SPDX-License-Identifier: MIT
// A connected transport needs a peer: its queue pairs have no activate().
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
