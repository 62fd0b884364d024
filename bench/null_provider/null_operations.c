/* SPDX-License-Identifier: MIT
 * The data-path operations of the null provider. This file must contain no other functions:
 * the benchmark subtracts the instructions of this file from an inclusive count.
 */
#include <errno.h>

#include "bench/null_provider/null_types.h"

static int post_send(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr) {
  struct null_qp* self = (struct null_qp*)qp;
  (void)bad_wr;
  for (; wr != NULL; wr = wr->next) self->posted += 1;
  return 0;
}

static int post_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  struct null_qp* self = (struct null_qp*)qp;
  (void)bad_wr;
  for (; wr != NULL; wr = wr->next) self->posted += 1;
  return 0;
}

static int post_srq_recv(struct ibv_srq* srq, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  struct null_srq* self = (struct null_srq*)srq;
  (void)bad_wr;
  for (; wr != NULL; wr = wr->next) self->posted += 1;
  return 0;
}

static int poll_cq(struct ibv_cq* cq, int count, struct ibv_wc* wc) {
  struct null_cq* self = (struct null_cq*)cq;
  for (int i = 0; i < count; ++i) {
    wc[i].wr_id = self->polled++;
    wc[i].status = IBV_WC_SUCCESS;
    wc[i].opcode = IBV_WC_RDMA_WRITE;
    wc[i].byte_len = 64;
    wc[i].wc_flags = 0;
  }
  return count;
}

void null_set_context_operations(struct ibv_context* context) {
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  context->ops.post_srq_recv = post_srq_recv;
  context->ops.poll_cq = poll_cq;
}

static void wr_start(struct ibv_qp_ex* qp) { ((struct null_qp*)qp)->posted += 1; }
static int wr_complete(struct ibv_qp_ex* qp) {
  ((struct null_qp*)qp)->posted += 1;
  return 0;
}
static void wr_abort(struct ibv_qp_ex* qp) { ((struct null_qp*)qp)->posted += 1; }
static void wr_rdma_write(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address) {
  (void)rkey;
  (void)remote_address;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_rdma_write_imm(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address,
                              __be32 immediate) {
  (void)rkey;
  (void)remote_address;
  (void)immediate;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_rdma_read(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address) {
  (void)rkey;
  (void)remote_address;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_atomic_cmp_swp(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address,
                              uint64_t compare, uint64_t swap) {
  (void)rkey;
  (void)remote_address;
  (void)compare;
  (void)swap;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_atomic_fetch_add(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address,
                                uint64_t add) {
  (void)rkey;
  (void)remote_address;
  (void)add;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_send_imm(struct ibv_qp_ex* qp, __be32 immediate) {
  (void)immediate;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_set_inline_data(struct ibv_qp_ex* qp, void* address, size_t length) {
  (void)address;
  (void)length;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_send(struct ibv_qp_ex* qp) { ((struct null_qp*)qp)->posted += 1; }
static void wr_set_ud_addr(struct ibv_qp_ex* qp, struct ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  (void)ah;
  (void)qpn;
  (void)qkey;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_set_sge(struct ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  (void)lkey;
  (void)address;
  (void)length;
  ((struct null_qp*)qp)->posted += 1;
}
static void wr_set_sge_list(struct ibv_qp_ex* qp, size_t count, const struct ibv_sge* list) {
  (void)count;
  (void)list;
  ((struct null_qp*)qp)->posted += 1;
}

void null_set_qp_operations(struct ibv_qp_ex* qp) {
  qp->wr_start = wr_start;
  qp->wr_complete = wr_complete;
  qp->wr_abort = wr_abort;
  qp->wr_rdma_write = wr_rdma_write;
  qp->wr_rdma_write_imm = wr_rdma_write_imm;
  qp->wr_rdma_read = wr_rdma_read;
  qp->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp->wr_atomic_fetch_add = wr_atomic_fetch_add;
  qp->wr_send_imm = wr_send_imm;
  qp->wr_set_inline_data = wr_set_inline_data;
  qp->wr_send = wr_send;
  qp->wr_set_ud_addr = wr_set_ud_addr;
  qp->wr_set_sge = wr_set_sge;
  qp->wr_set_sge_list = wr_set_sge_list;
}

static void load(struct null_cq* self) {
  self->ex.wr_id = self->polled++;
  self->ex.status = IBV_WC_SUCCESS;
}
static int start_poll(struct ibv_cq_ex* cq, struct ibv_poll_cq_attr* attributes) {
  struct null_cq* self = (struct null_cq*)cq;
  (void)attributes;
  self->index = 0;
  load(self);
  return 0;
}
static int next_poll(struct ibv_cq_ex* cq) {
  struct null_cq* self = (struct null_cq*)cq;
  if (++self->index == null_completions_per_poll) return ENOENT;
  load(self);
  return 0;
}
static void end_poll(struct ibv_cq_ex* cq) { ((struct null_cq*)cq)->polled += 1; }
static uint32_t read_byte_len(struct ibv_cq_ex* cq) {
  ((struct null_cq*)cq)->polled += 1;
  return 64;
}
static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex* cq) {
  ((struct null_cq*)cq)->polled += 1;
  return IBV_WC_RDMA_WRITE;
}
static unsigned int read_wc_flags(struct ibv_cq_ex* cq) {
  ((struct null_cq*)cq)->polled += 1;
  return 0;
}
static __be32 read_imm_data(struct ibv_cq_ex* cq) {
  ((struct null_cq*)cq)->polled += 1;
  return 0;
}
static uint32_t read_vendor_err(struct ibv_cq_ex* cq) {
  ((struct null_cq*)cq)->polled += 1;
  return 0;
}

void null_set_cq_operations(struct ibv_cq_ex* cq) {
  cq->start_poll = start_poll;
  cq->next_poll = next_poll;
  cq->end_poll = end_poll;
  cq->read_byte_len = read_byte_len;
  cq->read_opcode = read_opcode;
  cq->read_wc_flags = read_wc_flags;
  cq->read_imm_data = read_imm_data;
  cq->read_vendor_err = read_vendor_err;
}
