/* SPDX-License-Identifier: MIT
 * A provider whose data-path operations only add one to a counter. The
 * remaining cost of a post or a poll is that of the caller's side. The operations sit behind
 * the same function pointers as a real provider's, in a translation unit of their own
 * (null_operations.c), and are built without link-time optimisation.
 */
#ifndef BENCH_NULL_PROVIDER_H
#define BENCH_NULL_PROVIDER_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Completions that one extended poll walks through before it reports ENOENT. */
enum { null_completions_per_poll = 16 };

/* The fields of one work request as the provider saw them; used to check that two callers set the
 * same fields. */
struct null_record {
  const char* operation; /* "post_send", "post_recv", "post_srq_recv", "wr_rdma_write"… */
  uint64_t wr_id;
  uint32_t opcode;
  uint32_t flags;
  uint64_t remote_address;
  uint32_t rkey;
  uint32_t remote_qpn; /* of datagrams */
  uint32_t remote_qkey;
  uint32_t immediate; /* as the device gets it */
  uint64_t compare_add;
  uint64_t swap;
  int sge_count;
  struct ibv_sge sge; /* the first one; without a key if the bytes are in the request */
};

/* Called for every work request while recording. */
typedef void null_record_function(const struct null_record* record, void* argument);

struct ibv_context* null_open(void);
void null_close(struct ibv_context* context);
struct ibv_pd* null_create_pd(struct ibv_context* context);
void null_destroy_pd(struct ibv_pd* pd);
/* The keys of all regions. */
enum { null_local_key = 0x1111, null_remote_key = 0x2222 };
struct ibv_mr* null_create_mr(struct ibv_pd* pd, void* address, size_t length);
void null_destroy_mr(struct ibv_mr* mr);
struct ibv_cq* null_create_cq(struct ibv_context* context);
struct ibv_cq_ex* null_create_cq_ex(struct ibv_context* context);
void null_destroy_cq(struct ibv_cq* cq);
struct ibv_qp* null_create_qp(struct ibv_pd* pd, struct ibv_cq* cq);
/* One that has the extended interface as well: null_qp_to_qp_ex gives it, and NULL for the others.
 */
struct ibv_qp* null_create_qp_ex(struct ibv_pd* pd, struct ibv_cq* cq);
struct ibv_qp_ex* null_qp_to_qp_ex(struct ibv_qp* qp);
void null_destroy_qp(struct ibv_qp* qp);

struct ibv_ah* null_create_ah(struct ibv_pd* pd);
void null_destroy_ah(struct ibv_ah* ah);
struct ibv_srq* null_create_srq(struct ibv_pd* pd);
void null_destroy_srq(struct ibv_srq* srq);

/* Replaces the operations of `qp` by ones that report each work request to `function`. */
void null_record_posts(struct ibv_qp* qp, null_record_function* function, void* argument);
/* The receives that were posted to a shared receive queue. */
void null_record_shared_posts(struct ibv_srq* srq, null_record_function* function, void* argument);

/* The operations (null_operations.c): put into a context, a queue pair, a completion queue. */
void null_set_context_operations(struct ibv_context* context);
void null_set_qp_operations(struct ibv_qp_ex* qp);
void null_set_cq_operations(struct ibv_cq_ex* cq);

#ifdef __cplusplus
}
#endif
#endif
