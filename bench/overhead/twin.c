/* SPDX-License-Identifier: MIT
 * The cases in idiomatic C: the objects are reached through a pointer to a structure, only the
 * fields that an operation needs are assigned, and no field is assigned twice.
 */
#include "bench/overhead/twin.h"

#define CASE(name) __attribute__((noinline)) uint64_t case_##name(struct overhead_objects* objects)

static inline void set_sge(struct ibv_sge* sge, const struct ibv_sge* slot) {
  sge->addr = slot->addr;
  sge->length = slot->length;
  sge->lkey = slot->lkey;
}

static inline void set_write(struct ibv_send_wr* wr, struct ibv_sge* sge, uint64_t id,
                             const struct twin_remote* remote) {
  wr->wr_id = id;
  wr->sg_list = sge;
  wr->num_sge = 1;
  wr->opcode = IBV_WR_RDMA_WRITE;
  wr->send_flags = IBV_SEND_SIGNALED;
  wr->wr.rdma.remote_addr = remote->address;
  wr->wr.rdma.rkey = remote->rkey;
}

static inline void set_send(struct ibv_send_wr* wr, struct ibv_sge* sge, uint64_t id) {
  wr->wr_id = id;
  wr->sg_list = sge;
  wr->num_sge = 1;
  wr->opcode = IBV_WR_SEND;
  wr->send_flags = IBV_SEND_SIGNALED;
}

CASE(write_1) {
  struct ibv_sge sge;
  struct ibv_send_wr wr;
  struct ibv_send_wr* bad_wr;
  set_sge(&sge, &objects->local[0]);
  wr.next = NULL;
  set_write(&wr, &sge, OVERHEAD_FIRST_ID, &objects->remote[0]);
  return outcome_of(ibv_post_send(objects->qp, &wr, &bad_wr));
}

CASE(send_1) {
  struct ibv_sge sge;
  struct ibv_send_wr wr;
  struct ibv_send_wr* bad_wr;
  set_sge(&sge, &objects->local[0]);
  wr.next = NULL;
  set_send(&wr, &sge, OVERHEAD_FIRST_ID);
  return outcome_of(ibv_post_send(objects->qp, &wr, &bad_wr));
}

CASE(write_16) {
  struct ibv_sge sge[overhead_slots];
  struct ibv_send_wr wr[overhead_slots];
  struct ibv_send_wr* bad_wr;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    set_sge(&sge[i], &objects->local[i]);
    set_write(&wr[i], &sge[i], OVERHEAD_FIRST_ID + i, &objects->remote[i]);
    wr[i].next = &wr[i + 1];
  }
  wr[overhead_slots - 1].next = NULL;
  return outcome_of(ibv_post_send(objects->qp, wr, &bad_wr));
}

static inline uint64_t write_one(struct overhead_objects* objects, unsigned slot) {
  struct ibv_sge sge;
  struct ibv_send_wr wr;
  struct ibv_send_wr* bad_wr;
  set_sge(&sge, &objects->local[slot]);
  wr.next = NULL;
  set_write(&wr, &sge, OVERHEAD_FIRST_ID + slot, &objects->remote[slot]);
  return outcome_of(ibv_post_send(objects->qp, &wr, &bad_wr));
}

CASE(write_2) {
  uint64_t codes = write_one(objects, 0);
  codes |= write_one(objects, 1);
  return codes;
}

CASE(write_loop) {
  uint64_t codes = 0;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    struct ibv_sge sge;
    struct ibv_send_wr wr;
    struct ibv_send_wr* bad_wr;
    set_sge(&sge, &objects->local[i]);
    wr.next = NULL;
    set_write(&wr, &sge, OVERHEAD_FIRST_ID + i, &objects->remote[i]);
    codes |= outcome_of(ibv_post_send(objects->qp, &wr, &bad_wr));
  }
  return codes;
}

CASE(write_1_span) {
  struct ibv_send_wr wr;
  struct ibv_send_wr* bad_wr;
  wr.next = NULL;
  set_write(&wr, &objects->local[0], OVERHEAD_FIRST_ID, &objects->remote[0]);
  return outcome_of(ibv_post_send(objects->qp, &wr, &bad_wr));
}

CASE(write_16_span) {
  struct ibv_send_wr wr[overhead_slots];
  struct ibv_send_wr* bad_wr;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    set_write(&wr[i], &objects->local[i], OVERHEAD_FIRST_ID + i, &objects->remote[i]);
    wr[i].next = &wr[i + 1];
  }
  wr[overhead_slots - 1].next = NULL;
  return outcome_of(ibv_post_send(objects->qp, wr, &bad_wr));
}

CASE(send_16) {
  struct ibv_sge sge[overhead_slots];
  struct ibv_send_wr wr[overhead_slots];
  struct ibv_send_wr* bad_wr;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    set_sge(&sge[i], &objects->local[i]);
    set_send(&wr[i], &sge[i], OVERHEAD_FIRST_ID + i);
    wr[i].next = &wr[i + 1];
  }
  wr[overhead_slots - 1].next = NULL;
  return outcome_of(ibv_post_send(objects->qp, wr, &bad_wr));
}

static inline void extended_write(struct ibv_qp_ex* qp, uint64_t id, const struct ibv_sge* local,
                                  const struct twin_remote* remote) {
  qp->wr_id = id;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, remote->rkey, remote->address);
  ibv_wr_set_sge(qp, local->lkey, local->addr, local->length);
}

static inline void extended_send(struct ibv_qp_ex* qp, uint64_t id, const struct ibv_sge* local) {
  qp->wr_id = id;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, local->lkey, local->addr, local->length);
}

CASE(write_1_ex) {
  struct ibv_qp_ex* qp = objects->qp_ex;
  ibv_wr_start(qp);
  extended_write(qp, OVERHEAD_FIRST_ID, &objects->local[0], &objects->remote[0]);
  return outcome_of(ibv_wr_complete(qp));
}

static inline uint64_t write_one_extended(struct overhead_objects* objects, unsigned slot) {
  struct ibv_qp_ex* qp = objects->qp_ex;
  ibv_wr_start(qp);
  extended_write(qp, OVERHEAD_FIRST_ID + slot, &objects->local[slot], &objects->remote[slot]);
  return outcome_of(ibv_wr_complete(qp));
}

CASE(write_2_ex) {
  uint64_t codes = write_one_extended(objects, 0);
  codes |= write_one_extended(objects, 1);
  return codes;
}

CASE(write_loop_ex) {
  struct ibv_qp_ex* qp = objects->qp_ex;
  uint64_t codes = 0;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    ibv_wr_start(qp);
    extended_write(qp, OVERHEAD_FIRST_ID + i, &objects->local[i], &objects->remote[i]);
    codes |= outcome_of(ibv_wr_complete(qp));
  }
  return codes;
}

CASE(send_1_ex) {
  struct ibv_qp_ex* qp = objects->qp_ex;
  ibv_wr_start(qp);
  extended_send(qp, OVERHEAD_FIRST_ID, &objects->local[0]);
  return outcome_of(ibv_wr_complete(qp));
}

CASE(write_16_ex) {
  struct ibv_qp_ex* qp = objects->qp_ex;
  ibv_wr_start(qp);
  for (unsigned i = 0; i < overhead_slots; ++i)
    extended_write(qp, OVERHEAD_FIRST_ID + i, &objects->local[i], &objects->remote[i]);
  return outcome_of(ibv_wr_complete(qp));
}

CASE(send_16_ex) {
  struct ibv_qp_ex* qp = objects->qp_ex;
  ibv_wr_start(qp);
  for (unsigned i = 0; i < overhead_slots; ++i)
    extended_send(qp, OVERHEAD_FIRST_ID + i, &objects->local[i]);
  return outcome_of(ibv_wr_complete(qp));
}

static inline void set_datagram(struct ibv_send_wr* wr, struct ibv_sge* sge, uint64_t id,
                                const struct twin_destination* to) {
  set_send(wr, sge, id);
  wr->wr.ud.ah = to->ah;
  wr->wr.ud.remote_qpn = to->qpn;
  wr->wr.ud.remote_qkey = to->qkey;
}

CASE(datagram_1) {
  struct ibv_sge sge;
  struct ibv_send_wr wr;
  struct ibv_send_wr* bad_wr;
  set_sge(&sge, &objects->local[0]);
  wr.next = NULL;
  set_datagram(&wr, &sge, OVERHEAD_FIRST_ID, &objects->to);
  return outcome_of(ibv_post_send(objects->datagrams, &wr, &bad_wr));
}

CASE(datagram_16) {
  struct ibv_sge sge[overhead_slots];
  struct ibv_send_wr wr[overhead_slots];
  struct ibv_send_wr* bad_wr;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    set_sge(&sge[i], &objects->local[i]);
    set_datagram(&wr[i], &sge[i], OVERHEAD_FIRST_ID + i, &objects->to);
    wr[i].next = &wr[i + 1];
  }
  wr[overhead_slots - 1].next = NULL;
  return outcome_of(ibv_post_send(objects->datagrams, wr, &bad_wr));
}

static inline void extended_datagram(struct ibv_qp_ex* qp, uint64_t id, const struct ibv_sge* local,
                                     const struct twin_destination* to) {
  qp->wr_id = id;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, to->ah, to->qpn, to->qkey);
  ibv_wr_set_sge(qp, local->lkey, local->addr, local->length);
}

CASE(datagram_1_ex) {
  struct ibv_qp_ex* qp = objects->datagrams_ex;
  ibv_wr_start(qp);
  extended_datagram(qp, OVERHEAD_FIRST_ID, &objects->local[0], &objects->to);
  return outcome_of(ibv_wr_complete(qp));
}

CASE(datagram_16_ex) {
  struct ibv_qp_ex* qp = objects->datagrams_ex;
  ibv_wr_start(qp);
  for (unsigned i = 0; i < overhead_slots; ++i)
    extended_datagram(qp, OVERHEAD_FIRST_ID + i, &objects->local[i], &objects->to);
  return outcome_of(ibv_wr_complete(qp));
}

static inline void set_receive(struct ibv_recv_wr* wr, struct ibv_sge* sge, uint64_t id) {
  wr->wr_id = id;
  wr->sg_list = sge;
  wr->num_sge = 1;
}

CASE(receive_1) {
  struct ibv_sge sge;
  struct ibv_recv_wr wr;
  struct ibv_recv_wr* bad_wr;
  set_sge(&sge, &objects->local[0]);
  wr.next = NULL;
  set_receive(&wr, &sge, OVERHEAD_FIRST_ID);
  return outcome_of(ibv_post_recv(objects->qp, &wr, &bad_wr));
}

CASE(receive_16) {
  struct ibv_sge sge[overhead_slots];
  struct ibv_recv_wr wr[overhead_slots];
  struct ibv_recv_wr* bad_wr;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    set_sge(&sge[i], &objects->local[i]);
    set_receive(&wr[i], &sge[i], OVERHEAD_FIRST_ID + i);
    wr[i].next = &wr[i + 1];
  }
  wr[overhead_slots - 1].next = NULL;
  return outcome_of(ibv_post_recv(objects->qp, wr, &bad_wr));
}

CASE(shared_receive_1) {
  struct ibv_sge sge;
  struct ibv_recv_wr wr;
  struct ibv_recv_wr* bad_wr;
  set_sge(&sge, &objects->local[0]);
  wr.next = NULL;
  set_receive(&wr, &sge, OVERHEAD_FIRST_ID);
  return outcome_of(ibv_post_srq_recv(objects->srq, &wr, &bad_wr));
}

CASE(shared_receive_16) {
  struct ibv_sge sge[overhead_slots];
  struct ibv_recv_wr wr[overhead_slots];
  struct ibv_recv_wr* bad_wr;
  for (unsigned i = 0; i < overhead_slots; ++i) {
    set_sge(&sge[i], &objects->local[i]);
    set_receive(&wr[i], &sge[i], OVERHEAD_FIRST_ID + i);
    wr[i].next = &wr[i + 1];
  }
  wr[overhead_slots - 1].next = NULL;
  return outcome_of(ibv_post_srq_recv(objects->srq, wr, &bad_wr));
}

CASE(poll_1) {
  struct ibv_wc wc;
  int count = ibv_poll_cq(objects->cq, 1, &wc);
  if (count < 0) return UINT64_MAX;
  if (count == 0) return 0;
  if (wc.status != IBV_WC_SUCCESS) return UINT64_MAX;
  return wc.wr_id + wc.byte_len;
}

CASE(poll_16) {
  struct ibv_wc wc[overhead_slots];
  uint64_t sum = 0;
  int count = ibv_poll_cq(objects->cq, overhead_slots, wc);
  if (count < 0) return UINT64_MAX;
  for (int i = 0; i < count; ++i) {
    if (wc[i].status != IBV_WC_SUCCESS) return UINT64_MAX;
    sum += wc[i].wr_id + wc[i].byte_len;
  }
  return sum;
}

CASE(lazy_poll_16) {
  struct ibv_cq_ex* cq = objects->cq_ex;
  struct ibv_poll_cq_attr attributes = {0};
  uint64_t sum = 0;
  int status = ibv_start_poll(cq, &attributes);
  if (status == ENOENT) return 0;
  if (status != 0) return UINT64_MAX;
  do {
    if (cq->status == IBV_WC_SUCCESS) sum += cq->wr_id + ibv_wc_read_byte_len(cq);
    status = ibv_next_poll(cq);
  } while (status == 0);
  ibv_end_poll(cq);
  return status == ENOENT ? sum : UINT64_MAX;
}
