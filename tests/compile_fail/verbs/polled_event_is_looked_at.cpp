// SPDX-License-Identifier: MIT
// An event that was taken comes only once: it must be looked at.
// expect-gcc: an event comes only once: look at it
// expect-clang: an error may be inside
#include "verbena/verbs/context.hpp"

void use(const verbena::context& device) {
#ifdef VERBENA_BAD
  device.poll_event();
#else
  if (const auto event = device.poll_event().value()) static_cast<void>(event->kind());
#endif
}
