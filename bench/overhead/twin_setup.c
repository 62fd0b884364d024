/* SPDX-License-Identifier: MIT
 * Makes the C side's objects, at run time and in a unit of their own, so that nothing about them is
 * known to twin.c.
 */
#include <stdlib.h>

#include "bench/null_provider/null_provider.h"
#include "bench/overhead/twin.h"

#define ENTRY(name, operations) {#name, operations, case_##name},
const struct overhead_case overhead_cases[] = {OVERHEAD_CASES(ENTRY)};
const size_t overhead_case_count = sizeof overhead_cases / sizeof overhead_cases[0];

struct overhead_objects* overhead_set_up(struct ibv_qp** classic, struct ibv_qp** extended) {
  static unsigned char region[overhead_slots * overhead_slot_bytes];
  struct ibv_context* context = null_open();
  struct ibv_pd* pd = null_create_pd(context);
  struct overhead_objects* objects = calloc(1, sizeof *objects);
  if (objects == NULL) abort();
  objects->cq = null_create_cq(context);
  objects->cq_ex = null_create_cq_ex(context);
  objects->qp = null_create_qp(pd, objects->cq);
  *classic = objects->qp;
  *extended = null_create_qp_ex(pd, objects->cq);
  objects->qp_ex = null_qp_to_qp_ex(*extended);
  for (unsigned i = 0; i < overhead_slots; ++i) {
    objects->local[i] = (struct ibv_sge){.addr = (uintptr_t)&region[i * overhead_slot_bytes],
                                         .length = overhead_slot_bytes,
                                         .lkey = null_local_key};
    objects->remote[i] =
        (struct twin_remote){.address = OVERHEAD_REMOTE_ADDRESS + (uint64_t)i * overhead_slot_bytes,
                             .length = overhead_slot_bytes,
                             .rkey = null_remote_key};
  }
  return objects;
}
