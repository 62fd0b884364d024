/* SPDX-License-Identifier: MIT
 * Creates the objects of the C cases. A separate translation unit prevents the compiler from
 * optimising the cases for particular objects.
 */
#include <stdlib.h>

#include "bench/null_provider/null_provider.h"
#include "bench/overhead/twin.h"

#define ENTRY(name, operations) {#name, operations, case_##name},
const struct overhead_case overhead_cases[] = {OVERHEAD_CASES(ENTRY)};
const size_t overhead_case_count = sizeof overhead_cases / sizeof overhead_cases[0];

struct overhead_objects* overhead_set_up(struct overhead_queues* queues) {
  static unsigned char region[overhead_slots * overhead_slot_bytes];
  struct ibv_context* context = null_open();
  struct ibv_pd* pd = null_create_pd(context);
  struct overhead_objects* objects = calloc(1, sizeof *objects);
  if (objects == NULL) abort();
  objects->cq = null_create_cq(context);
  objects->cq_ex = null_create_cq_ex(context);
  objects->qp = null_create_qp(pd, objects->cq);
  objects->datagrams = null_create_qp_ex(pd, objects->cq);
  objects->datagrams->qp_type = IBV_QPT_UD;
  objects->datagrams_ex = null_qp_to_qp_ex(objects->datagrams);
  objects->srq = null_create_srq(pd);
  objects->to = (struct twin_destination){
      .ah = null_create_ah(pd), .qpn = overhead_remote_number, .qkey = overhead_remote_qkey};
  *queues = (struct overhead_queues){.classic = objects->qp,
                                     .extended = null_create_qp_ex(pd, objects->cq),
                                     .datagram = objects->datagrams,
                                     .shared = objects->srq};
  objects->qp_ex = null_qp_to_qp_ex(queues->extended);
  for (unsigned i = 0; i < overhead_slots; ++i) {
    objects->local[i] = (struct ibv_sge){.addr = (uintptr_t)&region[i * overhead_slot_bytes],
                                         .length = overhead_slot_bytes,
                                         .lkey = null_local_key};
    objects->words[i] = objects->local[i];
    objects->words[i].length = 8;
    objects->inlined[i] = (struct ibv_data_buf){.addr = &region[i * overhead_slot_bytes],
                                                .length = overhead_slot_bytes};
    objects->remote[i] =
        (struct twin_remote){.address = OVERHEAD_REMOTE_ADDRESS + (uint64_t)i * overhead_slot_bytes,
                             .length = overhead_slot_bytes,
                             .rkey = null_remote_key};
  }
  return objects;
}
