/* SPDX-License-Identifier: MIT
 * The verbs objects of the C cases.
 */
#ifndef BENCH_OVERHEAD_TWIN_H
#define BENCH_OVERHEAD_TWIN_H

#include <errno.h>
#include <infiniband/verbs.h>

#include "bench/overhead/cases.h"

struct twin_remote {
  uint64_t address;
  uint64_t length;
  uint32_t rkey;
};

struct twin_destination {
  struct ibv_ah* ah;
  uint32_t qpn;
  uint32_t qkey;
};

struct overhead_objects {
  struct ibv_qp* qp;
  struct ibv_qp_ex* qp_ex;
  struct ibv_cq* cq;
  struct ibv_cq_ex* cq_ex;
  struct ibv_sge local[overhead_slots];
  struct twin_remote remote[overhead_slots];
  struct ibv_qp* datagrams;
  struct ibv_qp_ex* datagrams_ex;
  struct ibv_srq* srq;
  struct twin_destination to;
  struct ibv_sge words[overhead_slots]; /* the first eight bytes of each slot */
  struct ibv_data_buf inlined[overhead_slots];
};

static inline uint64_t outcome_of(int code) {
  return __builtin_expect(code == 0, 1) ? 0 : overhead_failed(code);
}

#endif
