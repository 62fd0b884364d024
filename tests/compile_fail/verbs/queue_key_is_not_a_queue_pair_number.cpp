// SPDX-License-Identifier: MIT
// The number of the queue pair comes first, its key second.
// expect: no known conversion|could not convert|cannot convert|no viable conversion|no matching|non-const lvalue
#include "verbena/verbs/address_handle.hpp"

verbena::destination use(const verbena::address_handle& way) {
  const verbena::queue_pair_number number(7);
  const verbena::queue_key key(9);
#ifdef VERBENA_BAD
  return way.destination(key, number);
#else
  return way.destination(number, key);
#endif
}
