/* SPDX-License-Identifier: MIT
 * Operations that report each work request instead of counting it. Only fields that the operation
 * gives a meaning are reported, so that a caller may leave the others uninitialised.
 */
#include <string.h>

#include "bench/null_provider/null_types.h"

static void report_sges(struct null_record* record, const struct ibv_sge* list, int count) {
  record->sge_count = count;
  if (count > 0) record->sge = list[0];
}

static void set_operands(struct null_record* record, const struct ibv_send_wr* wr) {
  switch (wr->opcode) {
    case IBV_WR_SEND_WITH_IMM:
      record->immediate = wr->imm_data;
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      record->immediate = wr->imm_data;
      /* fall through */
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      record->remote_address = wr->wr.rdma.remote_addr;
      record->rkey = wr->wr.rdma.rkey;
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      record->swap = wr->wr.atomic.swap;
      /* fall through */
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      record->compare_add = wr->wr.atomic.compare_add;
      record->remote_address = wr->wr.atomic.remote_addr;
      record->rkey = wr->wr.atomic.rkey;
      break;
    default:
      break;
  }
}

static int post_send(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr) {
  struct null_qp* self = (struct null_qp*)qp;
  (void)bad_wr;
  for (; wr != NULL; wr = wr->next) {
    struct null_record record = {.operation = "post_send"};
    record.wr_id = wr->wr_id;
    record.opcode = wr->opcode;
    record.flags = wr->send_flags;
    set_operands(&record, wr);
    if (self->ex.qp_base.qp_type == IBV_QPT_UD) {
      record.remote_qpn = wr->wr.ud.remote_qpn;
      record.remote_qkey = wr->wr.ud.remote_qkey;
    }
    report_sges(&record, wr->sg_list, wr->num_sge);
    if ((wr->send_flags & IBV_SEND_INLINE) != 0) record.sge.lkey = 0;
    self->record(&record, self->record_argument);
  }
  return 0;
}

static int post_recv(struct ibv_qp* qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  struct null_qp* self = (struct null_qp*)qp;
  (void)bad_wr;
  for (; wr != NULL; wr = wr->next) {
    struct null_record record = {.operation = "post_recv"};
    record.wr_id = wr->wr_id;
    report_sges(&record, wr->sg_list, wr->num_sge);
    self->record(&record, self->record_argument);
  }
  return 0;
}

static int post_srq_recv(struct ibv_srq* srq, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
  struct null_srq* self = (struct null_srq*)srq;
  (void)bad_wr;
  for (; wr != NULL; wr = wr->next) {
    struct null_record record = {.operation = "post_srq_recv"};
    record.wr_id = wr->wr_id;
    report_sges(&record, wr->sg_list, wr->num_sge);
    self->record(&record, self->record_argument);
  }
  return 0;
}

/* An extended request is complete when its buffers were set. */
static struct null_record* begin(struct ibv_qp_ex* qp, const char* operation) {
  struct null_record* record = &((struct null_qp*)qp)->pending;
  memset(record, 0, sizeof *record);
  record->operation = operation;
  record->wr_id = qp->wr_id;
  record->flags = qp->wr_flags;
  return record;
}
static struct null_record* begin_remote(struct ibv_qp_ex* qp, const char* operation, uint32_t rkey,
                                        uint64_t remote_address) {
  struct null_record* record = begin(qp, operation);
  record->rkey = rkey;
  record->remote_address = remote_address;
  return record;
}
static void wr_rdma_write(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address) {
  begin_remote(qp, "wr_rdma_write", rkey, remote_address);
}
static void wr_rdma_write_imm(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address,
                              __be32 immediate) {
  begin_remote(qp, "wr_rdma_write_imm", rkey, remote_address)->immediate = immediate;
}
static void wr_rdma_read(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address) {
  begin_remote(qp, "wr_rdma_read", rkey, remote_address);
}
static void wr_atomic_cmp_swp(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address,
                              uint64_t compare, uint64_t swap) {
  struct null_record* record = begin_remote(qp, "wr_atomic_cmp_swp", rkey, remote_address);
  record->compare_add = compare;
  record->swap = swap;
}
static void wr_atomic_fetch_add(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address,
                                uint64_t add) {
  begin_remote(qp, "wr_atomic_fetch_add", rkey, remote_address)->compare_add = add;
}
static void wr_send(struct ibv_qp_ex* qp) { begin(qp, "wr_send"); }
static void wr_send_imm(struct ibv_qp_ex* qp, __be32 immediate) {
  begin(qp, "wr_send_imm")->immediate = immediate;
}
static void wr_set_ud_addr(struct ibv_qp_ex* qp, struct ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  struct null_record* record = &((struct null_qp*)qp)->pending;
  (void)ah;
  record->remote_qpn = qpn;
  record->remote_qkey = qkey;
}
static void wr_set_sge_list(struct ibv_qp_ex* qp, size_t count, const struct ibv_sge* list) {
  struct null_qp* self = (struct null_qp*)qp;
  report_sges(&self->pending, list, (int)count);
  self->record(&self->pending, self->record_argument);
}
static void wr_set_sge(struct ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  struct ibv_sge sge = {.addr = address, .length = length, .lkey = lkey};
  wr_set_sge_list(qp, 1, &sge);
}

static void wr_set_inline_data(struct ibv_qp_ex* qp, void* address, size_t length) {
  struct ibv_sge sge = {.addr = (uintptr_t)address, .length = (uint32_t)length};
  wr_set_sge_list(qp, 1, &sge);
}

void null_record_posts(struct ibv_qp* qp, null_record_function* function, void* argument) {
  struct null_qp* self = (struct null_qp*)qp;
  self->record = function;
  self->record_argument = argument;
  qp->context->ops.post_send = post_send;
  qp->context->ops.post_recv = post_recv;
  self->ex.wr_rdma_write = wr_rdma_write;
  self->ex.wr_rdma_write_imm = wr_rdma_write_imm;
  self->ex.wr_rdma_read = wr_rdma_read;
  self->ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  self->ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
  self->ex.wr_send = wr_send;
  self->ex.wr_send_imm = wr_send_imm;
  self->ex.wr_set_inline_data = wr_set_inline_data;
  self->ex.wr_set_ud_addr = wr_set_ud_addr;
  self->ex.wr_set_sge = wr_set_sge;
  self->ex.wr_set_sge_list = wr_set_sge_list;
}

void null_record_shared_posts(struct ibv_srq* srq, null_record_function* function, void* argument) {
  struct null_srq* self = (struct null_srq*)srq;
  self->record = function;
  self->record_argument = argument;
  srq->context->ops.post_srq_recv = post_srq_recv;
}
