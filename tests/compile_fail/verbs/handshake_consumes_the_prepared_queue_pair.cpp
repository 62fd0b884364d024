// SPDX-License-Identifier: MIT
// The handshake consumes the prepared queue pair.
// expect: discards qualifiers|rvalue|lvalue
// parity: ibverbs-200, rrddmma-72
#include <utility>

#include "verbena/verbs/prepared_queue_pair.hpp"

auto use(verbena::prepared_queue_pair<verbena::rc>& prepared, const verbena::endpoint& peer) {
#ifdef VERBENA_BAD
  return prepared.handshake(peer);
#else
  return std::move(prepared).handshake(peer);
#endif
}
