// SPDX-License-Identifier: MIT
// A wait takes a deadline, not a number without a unit.
// expect-gcc: could not convert|cannot convert
// expect-clang: no viable conversion
#include "verbena/verbs/context.hpp"

bool use(const verbena::context& device) {
#ifdef VERBENA_BAD
  const auto event = device.wait_event(5);
#else
  const auto event = device.wait_event(verbena::deadline::after(std::chrono::seconds(5)));
#endif
  return event.has_value();
}
