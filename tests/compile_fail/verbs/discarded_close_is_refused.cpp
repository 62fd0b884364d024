// SPDX-License-Identifier: MIT
// Closing can fail: the result of close() cannot be ignored.
// expect: if closing fails, the result contains the object
#include <utility>

#include "verbena/verbs/protection_domain.hpp"

bool use(verbena::protection_domain pd) {
#ifdef VERBENA_BAD
  std::move(pd).close();
  return true;
#else
  return std::move(pd).close().has_value();
#endif
}
