// SPDX-License-Identifier: MIT
// A batch posts to its queue pair at submit(): the queue pair cannot be a temporary.
// expect-gcc: cannot convert .*queue_pair
// expect-clang: rvalue|lvalue|no matching|r-value
#include <utility>

#include "verbena/verbs/prepared_queue_pair.hpp"

void use(verbena::prepared_queue_pair<verbena::rc>& prepared, const verbena::endpoint& peer) {
#ifdef VERBENA_BAD
  auto batch = std::move(prepared).handshake(peer).value().start_send();
#else
  auto queue = std::move(prepared).handshake(peer).value();
  auto batch = queue.start_send();
#endif
  static_cast<void>(batch.submit());
}
