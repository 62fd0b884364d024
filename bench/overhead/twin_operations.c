/* SPDX-License-Identifier: MIT
 * More cases in idiomatic C: one request and one list of 16 requests, through ibv_post_send and
 * ibv_wr_*.
 */
#include <arpa/inet.h>

#include "bench/overhead/twin.h"

#define CASE(name) __attribute__((noinline)) uint64_t case_##name(struct overhead_objects* objects)

/* set_NAME fills request i for ibv_post_send; add_NAME adds request i with ibv_wr_*. */
#define POSTED_CASES(name, queue, queue_ex)                                   \
  CASE(name##_1) {                                                            \
    struct ibv_sge sge;                                                       \
    struct ibv_send_wr wr;                                                    \
    struct ibv_send_wr* bad_wr;                                               \
    wr.next = NULL;                                                           \
    set_##name(&wr, &sge, objects, 0);                                        \
    return outcome_of(ibv_post_send(objects->queue, &wr, &bad_wr));           \
  }                                                                           \
  CASE(name##_16) {                                                           \
    struct ibv_sge sge[overhead_slots];                                       \
    struct ibv_send_wr wr[overhead_slots];                                    \
    struct ibv_send_wr* bad_wr;                                               \
    for (unsigned i = 0; i < overhead_slots; ++i) {                           \
      set_##name(&wr[i], &sge[i], objects, i);                                \
      wr[i].next = &wr[i + 1];                                                \
    }                                                                         \
    wr[overhead_slots - 1].next = NULL;                                       \
    return outcome_of(ibv_post_send(objects->queue, wr, &bad_wr));            \
  }                                                                           \
  CASE(name##_1_ex) {                                                         \
    struct ibv_qp_ex* qp = objects->queue_ex;                                 \
    ibv_wr_start(qp);                                                         \
    add_##name(qp, objects, 0);                                               \
    return outcome_of(ibv_wr_complete(qp));                                   \
  }                                                                           \
  CASE(name##_16_ex) {                                                        \
    struct ibv_qp_ex* qp = objects->queue_ex;                                 \
    ibv_wr_start(qp);                                                         \
    for (unsigned i = 0; i < overhead_slots; ++i) add_##name(qp, objects, i); \
    return outcome_of(ibv_wr_complete(qp));                                   \
  }

static inline void set_request(struct ibv_send_wr* wr, struct ibv_sge* sge,
                               const struct ibv_sge* slot, unsigned i, enum ibv_wr_opcode opcode) {
  sge->addr = slot->addr;
  sge->length = slot->length;
  sge->lkey = slot->lkey;
  wr->wr_id = OVERHEAD_FIRST_ID + i;
  wr->sg_list = sge;
  wr->num_sge = 1;
  wr->opcode = opcode;
  wr->send_flags = IBV_SEND_SIGNALED;
}

static inline void set_remote(struct ibv_send_wr* wr, const struct twin_remote* remote) {
  wr->wr.rdma.remote_addr = remote->address;
  wr->wr.rdma.rkey = remote->rkey;
}

static inline void begin(struct ibv_qp_ex* qp, unsigned i) {
  qp->wr_id = OVERHEAD_FIRST_ID + i;
  qp->wr_flags = IBV_SEND_SIGNALED;
}

static inline void set_slice(struct ibv_qp_ex* qp, const struct ibv_sge* slot) {
  ibv_wr_set_sge(qp, slot->lkey, slot->addr, slot->length);
}

static inline void set_send_immediate(struct ibv_send_wr* wr, struct ibv_sge* sge,
                                      const struct overhead_objects* objects, unsigned i) {
  set_request(wr, sge, &objects->local[i], i, IBV_WR_SEND_WITH_IMM);
  wr->imm_data = htonl(overhead_immediate);
}
static inline void add_send_immediate(struct ibv_qp_ex* qp, const struct overhead_objects* objects,
                                      unsigned i) {
  begin(qp, i);
  ibv_wr_send_imm(qp, htonl(overhead_immediate));
  set_slice(qp, &objects->local[i]);
}
POSTED_CASES(send_immediate, qp, qp_ex)

static inline void set_write_immediate(struct ibv_send_wr* wr, struct ibv_sge* sge,
                                       const struct overhead_objects* objects, unsigned i) {
  set_request(wr, sge, &objects->local[i], i, IBV_WR_RDMA_WRITE_WITH_IMM);
  wr->imm_data = htonl(overhead_immediate);
  set_remote(wr, &objects->remote[i]);
}
static inline void add_write_immediate(struct ibv_qp_ex* qp, const struct overhead_objects* objects,
                                       unsigned i) {
  begin(qp, i);
  ibv_wr_rdma_write_imm(qp, objects->remote[i].rkey, objects->remote[i].address,
                        htonl(overhead_immediate));
  set_slice(qp, &objects->local[i]);
}
POSTED_CASES(write_immediate, qp, qp_ex)

static inline void set_read(struct ibv_send_wr* wr, struct ibv_sge* sge,
                            const struct overhead_objects* objects, unsigned i) {
  set_request(wr, sge, &objects->local[i], i, IBV_WR_RDMA_READ);
  set_remote(wr, &objects->remote[i]);
}
static inline void add_read(struct ibv_qp_ex* qp, const struct overhead_objects* objects,
                            unsigned i) {
  begin(qp, i);
  ibv_wr_rdma_read(qp, objects->remote[i].rkey, objects->remote[i].address);
  set_slice(qp, &objects->local[i]);
}
POSTED_CASES(read, qp, qp_ex)

static inline void set_compare_swap(struct ibv_send_wr* wr, struct ibv_sge* sge,
                                    const struct overhead_objects* objects, unsigned i) {
  set_request(wr, sge, &objects->words[i], i, IBV_WR_ATOMIC_CMP_AND_SWP);
  wr->wr.atomic.remote_addr = objects->remote[i].address;
  wr->wr.atomic.compare_add = 5;
  wr->wr.atomic.swap = 6;
  wr->wr.atomic.rkey = objects->remote[i].rkey;
}
static inline void add_compare_swap(struct ibv_qp_ex* qp, const struct overhead_objects* objects,
                                    unsigned i) {
  begin(qp, i);
  ibv_wr_atomic_cmp_swp(qp, objects->remote[i].rkey, objects->remote[i].address, 5, 6);
  set_slice(qp, &objects->words[i]);
}
POSTED_CASES(compare_swap, qp, qp_ex)

static inline void set_fetch_add(struct ibv_send_wr* wr, struct ibv_sge* sge,
                                 const struct overhead_objects* objects, unsigned i) {
  set_request(wr, sge, &objects->words[i], i, IBV_WR_ATOMIC_FETCH_AND_ADD);
  wr->wr.atomic.remote_addr = objects->remote[i].address;
  wr->wr.atomic.compare_add = i;
  wr->wr.atomic.rkey = objects->remote[i].rkey;
}
static inline void add_fetch_add(struct ibv_qp_ex* qp, const struct overhead_objects* objects,
                                 unsigned i) {
  begin(qp, i);
  ibv_wr_atomic_fetch_add(qp, objects->remote[i].rkey, objects->remote[i].address, i);
  set_slice(qp, &objects->words[i]);
}
POSTED_CASES(fetch_add, qp, qp_ex)

/* Inline data needs no lkey. Some devices read the length 0 of a scatter/gather element as 2^31
 * bytes, so a request without data has no scatter/gather element. */
static inline void set_inline(struct ibv_send_wr* wr, struct ibv_sge* sge,
                              const struct overhead_objects* objects, unsigned i) {
  const struct ibv_data_buf* bytes = &objects->inlined[i];
  sge->addr = (uintptr_t)bytes->addr;
  sge->length = (uint32_t)bytes->length;
  wr->wr_id = OVERHEAD_FIRST_ID + i;
  wr->sg_list = sge;
  wr->num_sge = bytes->length != 0 ? 1 : 0;
  wr->opcode = IBV_WR_SEND;
  wr->send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
}
static inline void add_inline(struct ibv_qp_ex* qp, const struct overhead_objects* objects,
                              unsigned i) {
  qp->wr_id = OVERHEAD_FIRST_ID + i;
  qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, objects->inlined[i].addr, objects->inlined[i].length);
}
POSTED_CASES(inline, qp, qp_ex)

static inline void set_datagram_immediate(struct ibv_send_wr* wr, struct ibv_sge* sge,
                                          const struct overhead_objects* objects, unsigned i) {
  set_send_immediate(wr, sge, objects, i);
  wr->wr.ud.ah = objects->to.ah;
  wr->wr.ud.remote_qpn = objects->to.qpn;
  wr->wr.ud.remote_qkey = objects->to.qkey;
}
static inline void add_datagram_immediate(struct ibv_qp_ex* qp,
                                          const struct overhead_objects* objects, unsigned i) {
  begin(qp, i);
  ibv_wr_send_imm(qp, htonl(overhead_immediate));
  ibv_wr_set_ud_addr(qp, objects->to.ah, objects->to.qpn, objects->to.qkey);
  set_slice(qp, &objects->local[i]);
}
POSTED_CASES(datagram_immediate, datagrams, datagrams_ex)

CASE(lazy_fields_16) {
  struct ibv_cq_ex* cq = objects->cq_ex;
  struct ibv_poll_cq_attr attributes = {0};
  uint64_t sum = 0;
  int status = ibv_start_poll(cq, &attributes);
  if (status == ENOENT) return 0;
  if (status != 0) return UINT64_MAX;
  do {
    if (cq->status == IBV_WC_SUCCESS) {
      sum += cq->wr_id + (uint64_t)ibv_wc_read_opcode(cq);
      if ((ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) != 0) sum += ibv_wc_read_byte_len(cq);
    } else {
      sum += ibv_wc_read_vendor_err(cq);
    }
    status = ibv_next_poll(cq);
  } while (status == 0);
  ibv_end_poll(cq);
  return status == ENOENT ? sum : UINT64_MAX;
}
