// SPDX-License-Identifier: MIT
// An endpoint is not an address vector: the route also depends on the local side.
// expect: no known conversion|could not convert|cannot convert|no viable conversion|invalid initialization
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

auto use(const verbena::protection_domain& pd, const verbena::endpoint& peer,
         const verbena::prepared_queue_pair<verbena::ud>& prepared) {
#ifdef VERBENA_BAD
  static_cast<void>(prepared);
  return pd.create_ah(peer).has_value();
#else
  return pd.create_ah(prepared.address_of(peer).value()).has_value();
#endif
}
