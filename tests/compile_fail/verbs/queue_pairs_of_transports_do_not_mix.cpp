// SPDX-License-Identifier: MIT
// Queue pairs of different transports are different types.
// expect: could not convert|conversion|cannot convert|no viable
#include <utility>

#include "verbena/verbs/prepared_queue_pair.hpp"

verbena::queue_pair<verbena::uc> use(verbena::prepared_queue_pair<verbena::rc>& reliable,
                                     verbena::prepared_queue_pair<verbena::uc>& unreliable,
                                     const verbena::endpoint& peer) {
#ifdef VERBENA_BAD
  static_cast<void>(unreliable);
  return std::move(reliable).handshake(peer).value();
#else
  static_cast<void>(reliable);
  return std::move(unreliable).handshake(peer).value();
#endif
}
