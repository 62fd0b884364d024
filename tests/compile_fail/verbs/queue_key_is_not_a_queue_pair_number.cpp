// SPDX-License-Identifier: MIT
// A Q_Key and a queue pair number are different types and cannot be swapped.
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
