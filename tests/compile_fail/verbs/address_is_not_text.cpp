// SPDX-License-Identifier: MIT
// An address in text form is parsed, which can fail, before it is used.
// expect: could not convert|no viable conversion|cannot convert|no known conversion
#include "verbena/verbs/address_vector.hpp"

verbena::address_vector use() {
#ifdef VERBENA_BAD
  return {.gid = "192.0.2.1"};
#else
  return {.gid = verbena::parse_gid("192.0.2.1")};
#endif
}
