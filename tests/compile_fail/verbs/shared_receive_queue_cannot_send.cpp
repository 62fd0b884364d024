// SPDX-License-Identifier: MIT
// A shared receive queue takes receives, not sends.
// expect: no member named .start_send|has no member named .start_send
#include "verbena/verbs/shared_receive_queue.hpp"

void use(const verbena::shared_receive_queue& queue) {
#ifdef VERBENA_BAD
  static_cast<void>(queue.start_send().submit());
#else
  static_cast<void>(queue.start_receive().submit());
#endif
}
