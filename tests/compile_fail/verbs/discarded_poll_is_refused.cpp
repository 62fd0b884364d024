// SPDX-License-Identifier: MIT
// Polled completions are gone from the queue: they must be looked at.
// expect: polling can fail
#include <array>

#include "verbena/verbs/completion_queue.hpp"

void use(const verbena::completion_queue& queue) {
  std::array<verbena::completion, 4> room;
#ifdef VERBENA_BAD
  queue.poll(room);
#else
  for (const auto& done : queue.poll(room).value()) static_cast<void>(done.ok());
#endif
}
