// SPDX-License-Identifier: MIT
// Checks of programs that count what they find: they run under a forwarder, without GoogleTest.
#pragma once

#include <cstdio>

inline int failures = 0;  ///< checks that did not hold
inline int checks = 0;    ///< all of them

/// Counts, and says on standard error what did not hold.
inline void expect(bool good, const char* name, const char* what) {
  ++checks;
  if (good) return;
  ++failures;
  std::fprintf(stderr, "%s: %s\n", name, what);
}
