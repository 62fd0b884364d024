// SPDX-License-Identifier: MIT
// Nobody guesses whether a number means seconds or milliseconds: a wait names its end.
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
