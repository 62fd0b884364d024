// SPDX-License-Identifier: MIT
// SRD has only the extended interface: there is no option to select one.
// expect: no non-static data member named .extended|field designator .extended.
#include "verbena/efa/srd.hpp"

auto use() {
#ifdef VERBENA_BAD
  return verbena::queue_pair_options<verbena::efa::srd>{.extended = false};
#else
  return verbena::queue_pair_options<verbena::efa::srd>{.queues = {.max_inline_data = 8}};
#endif
}
