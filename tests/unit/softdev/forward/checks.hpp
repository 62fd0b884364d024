// SPDX-License-Identifier: MIT
// Checks for programs that run under a forwarder, without GoogleTest.
#pragma once

#include <cstdio>

inline int failures = 0;  ///< failed checks
inline int checks = 0;    ///< executed checks

/// Counts the check. If it failed, prints it to standard error.
inline void expect(bool good, const char* name, const char* what) {
  ++checks;
  if (good) return;
  ++failures;
  std::fprintf(stderr, "%s: %s\n", name, what);
}
