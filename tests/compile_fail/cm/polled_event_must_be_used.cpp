// SPDX-License-Identifier: MIT
// An event of the connection manager is delivered once and cannot be ignored.
// expect-gcc: an event comes only once: look at it
// expect-clang: an error may be inside
#include "verbena/cm/event_channel.hpp"

void use(const verbena::cm::event_channel& channel) {
#ifdef VERBENA_BAD
  channel.poll_event();
#else
  if (const auto event = channel.poll_event().value()) static_cast<void>(event->kind());
#endif
}
