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

static int post_send(struct ibv_qp* qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr) {
  struct null_qp* self = (struct null_qp*)qp;
  (void)bad_wr;
  for (; wr != NULL; wr = wr->next) {
    struct null_record record = {.operation = "post_send"};
    record.wr_id = wr->wr_id;
    record.opcode = wr->opcode;
    record.flags = wr->send_flags;
    if (wr->opcode == IBV_WR_RDMA_WRITE) {
      record.remote_address = wr->wr.rdma.remote_addr;
      record.rkey = wr->wr.rdma.rkey;
    }
    if (self->ex.qp_base.qp_type == IBV_QPT_UD) {
      record.remote_qpn = wr->wr.ud.remote_qpn;
      record.remote_qkey = wr->wr.ud.remote_qkey;
    }
    report_sges(&record, wr->sg_list, wr->num_sge);
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
static void wr_rdma_write(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_address) {
  struct null_record* record = begin(qp, "wr_rdma_write");
  record->rkey = rkey;
  record->remote_address = remote_address;
}
static void wr_send(struct ibv_qp_ex* qp) { begin(qp, "wr_send"); }
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

void null_record_posts(struct ibv_qp* qp, null_record_function* function, void* argument) {
  struct null_qp* self = (struct null_qp*)qp;
  self->record = function;
  self->record_argument = argument;
  qp->context->ops.post_send = post_send;
  qp->context->ops.post_recv = post_recv;
  self->ex.wr_rdma_write = wr_rdma_write;
  self->ex.wr_send = wr_send;
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
