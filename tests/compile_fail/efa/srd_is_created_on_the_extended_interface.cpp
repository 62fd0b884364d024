// SPDX-License-Identifier: MIT
// There is no choice of the interface where there is one interface.
// expect: no non-static data member named .extended|field designator .extended.
#include "verbena/efa/srd.hpp"

auto use() {
#ifdef VERBENA_BAD
  return verbena::queue_pair_options<verbena::efa::srd>{.extended = false};
#else
  return verbena::queue_pair_options<verbena::efa::srd>{.max_inline_data = 8};
#endif
}
