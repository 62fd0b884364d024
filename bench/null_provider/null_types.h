/* SPDX-License-Identifier: MIT
 * The null provider's own objects: the public structure first, then the counter that the operations
 * add to.
 */
#ifndef BENCH_NULL_TYPES_H
#define BENCH_NULL_TYPES_H

#include "bench/null_provider/null_provider.h"

struct null_qp {
  struct ibv_qp_ex ex;
  uint64_t posted;
  int is_extended;
  null_record_function* record; /* recording operations only */
  void* record_argument;
  struct null_record pending;
};

struct null_srq {
  struct ibv_srq srq;
  uint64_t posted;
  null_record_function* record; /* recording operations only */
  void* record_argument;
};

struct null_cq {
  struct ibv_cq_ex ex;
  uint64_t polled;
  int index; /* of the extended poll in progress */
};

#endif
