// SPDX-License-Identifier: MIT
// A datagram queue pair has no peer: it has no handshake().
// expect: no member named .handshake|has no member named .handshake
// parity: ibverbs-tests-92, ibverbs-314
#include <utility>

#include "verbena/verbs/prepared_queue_pair.hpp"

auto use(verbena::prepared_queue_pair<verbena::ud>& prepared, const verbena::endpoint& peer) {
#ifdef VERBENA_BAD
  return std::move(prepared).handshake(peer);
#else
  static_cast<void>(peer);
  return std::move(prepared).activate(verbena::queue_key(1));
#endif
}
