// SPDX-License-Identifier: MIT
// Polled completions are removed from the queue: the result cannot be ignored.
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
