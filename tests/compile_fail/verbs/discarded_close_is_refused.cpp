// SPDX-License-Identifier: MIT
// Closing can be refused: what close() returns may not be dropped unseen.
// expect: closing can be refused; the object is then inside
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
