// SPDX-License-Identifier: MIT
// An asynchronous event is delivered once and cannot be ignored.
// expect-gcc: each event is returned only once
// expect-clang: an error may be inside
#include "verbena/verbs/context.hpp"

void use(const verbena::context& device) {
#ifdef VERBENA_BAD
  device.poll_event();
#else
  if (const auto event = device.poll_event().value()) static_cast<void>(event->kind());
#endif
}
