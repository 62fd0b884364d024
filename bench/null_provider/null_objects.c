/* SPDX-License-Identifier: MIT
 * Creates and destroys the null provider's objects. These functions are not measured.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/null_provider/null_types.h"

static void* zeroed(size_t bytes) {
  void* memory = calloc(1, bytes);
  if (memory == NULL) {
    fputs("null provider: out of memory\n", stderr);
    abort();
  }
  return memory;
}

struct ibv_context* null_open(void) {
  struct ibv_context* context = zeroed(sizeof *context);
  struct ibv_device* device = zeroed(sizeof *device);
  snprintf(device->name, sizeof device->name, "null0");
  device->node_type = IBV_NODE_CA;
  device->transport_type = IBV_TRANSPORT_IB;
  context->device = device;
  context->cmd_fd = -1;
  context->async_fd = -1;
  null_set_context_operations(context);
  return context;
}

void null_close(struct ibv_context* context) {
  free(context->device);
  free(context);
}

struct ibv_pd* null_create_pd(struct ibv_context* context) {
  struct ibv_pd* pd = zeroed(sizeof *pd);
  pd->context = context;
  return pd;
}

void null_destroy_pd(struct ibv_pd* pd) { free(pd); }

struct ibv_mr* null_create_mr(struct ibv_pd* pd, void* address, size_t length) {
  struct ibv_mr* mr = zeroed(sizeof *mr);
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->lkey = null_local_key;
  mr->rkey = null_remote_key;
  return mr;
}

void null_destroy_mr(struct ibv_mr* mr) { free(mr); }

struct ibv_cq_ex* null_create_cq_ex(struct ibv_context* context) {
  struct null_cq* cq = zeroed(sizeof *cq);
  cq->ex.context = context;
  cq->ex.cqe = 1024;
  null_set_cq_operations(&cq->ex);
  return &cq->ex;
}

struct ibv_cq* null_create_cq(struct ibv_context* context) {
  return ibv_cq_ex_to_cq(null_create_cq_ex(context));
}

void null_destroy_cq(struct ibv_cq* cq) { free(cq); }

struct ibv_qp* null_create_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct null_qp* qp = zeroed(sizeof *qp);
  qp->ex.qp_base.context = pd->context;
  qp->ex.qp_base.pd = pd;
  qp->ex.qp_base.send_cq = cq;
  qp->ex.qp_base.recv_cq = cq;
  qp->ex.qp_base.qp_num = 1;
  qp->ex.qp_base.state = IBV_QPS_RTS;
  qp->ex.qp_base.qp_type = IBV_QPT_RC;
  null_set_qp_operations(&qp->ex);
  return &qp->ex.qp_base;
}

struct ibv_qp* null_create_qp_ex(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp* qp = null_create_qp(pd, cq);
  ((struct null_qp*)qp)->is_extended = 1;
  return qp;
}

struct ibv_qp_ex* null_qp_to_qp_ex(struct ibv_qp* qp) {
  struct null_qp* self = (struct null_qp*)qp;
  return self->is_extended ? &self->ex : NULL;
}

void null_destroy_qp(struct ibv_qp* qp) { free(qp); }

struct ibv_ah* null_create_ah(struct ibv_pd* pd) {
  struct ibv_ah* ah = zeroed(sizeof *ah);
  ah->context = pd->context;
  ah->pd = pd;
  return ah;
}

void null_destroy_ah(struct ibv_ah* ah) { free(ah); }

struct ibv_srq* null_create_srq(struct ibv_pd* pd) {
  struct null_srq* srq = zeroed(sizeof *srq);
  srq->srq.context = pd->context;
  srq->srq.pd = pd;
  return &srq->srq;
}

void null_destroy_srq(struct ibv_srq* srq) { free(srq); }
