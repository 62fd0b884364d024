// SPDX-License-Identifier: MIT
// Asynchronous events concern queues, ports and devices, not memory.
// expect: raises_async_events
#include "verbena/verbs/async_event.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/memory_region.hpp"

bool use(const verbena::async_event& event, const verbena::completion_queue& queue,
         const verbena::memory_region& memory) {
#ifdef VERBENA_BAD
  return event.concerns(memory);
#else
  static_cast<void>(memory);
  return event.concerns(queue);
#endif
}
