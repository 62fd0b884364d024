// SPDX-License-Identifier: MIT
// A destination borrows its address handle, which cannot be a temporary.
// expect: deleted
// parity: ibverbs-tests-93, ibverbs-315
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/protection_domain.hpp"

verbena::destination use(const verbena::protection_domain& pd, const verbena::address_handle& way) {
  const verbena::queue_pair_number number(7);
  const verbena::queue_key key(9);
#ifdef VERBENA_BAD
  static_cast<void>(way);
  return pd.create_ah({}).value().destination(number, key);
#else
  static_cast<void>(pd);
  return way.destination(number, key);
#endif
}
