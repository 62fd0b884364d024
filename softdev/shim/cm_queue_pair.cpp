// SPDX-License-Identifier: MIT
// Queue pairs of identifiers: creation, with their completion queues, and state transitions.
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/ipc/cancellation.hpp"
#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_operations.hpp"
#include "softdev/shim/guard.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {
namespace {

constexpr std::uint8_t default_timeout = 14;  // 4.096 us * 2^14 = 67 ms
constexpr std::uint8_t rnr_timer = 12;        // 0.64 ms

bool has_reply(cm::phase state) noexcept {
  switch (state) {
    case cm::phase::answered:
    case cm::phase::requested:
    case cm::phase::replied:
    case cm::phase::connected:
      return true;
    default:
      return false;
  }
}

bool has_peer(cm::phase state) noexcept {
  return has_reply(state) || state == cm::phase::requesting || state == cm::phase::waiting;
}

// The numbers of reads that this side answers and posts. On the passive side, the values of its
// reply apply as soon as it has replied.
struct depths {
  std::uint8_t answered;
  std::uint8_t begun;
};
depths depths_of(const cm::endpoint_view& now) noexcept {
  const bool by_peer = now.active ? has_reply(now.state) : now.state == cm::phase::requested;
  if (by_peer) return {now.remote.initiator_depth, now.remote.responder_resources};
  return {now.local.responder_resources, now.local.initiator_depth};
}

void fill_init(const cm_id_object& id, const cm::endpoint_view& now, ibv_qp_attr& out, int& mask) {
  out.pkey_index = 0;
  out.port_num = 1;
  mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (id.qp_type == IBV_QPT_UD) {
    out.qkey = RDMA_UDP_QKEY;
    mask |= IBV_QP_QKEY;
    return;
  }
  out.qp_access_flags = 0;
  mask |= IBV_QP_ACCESS_FLAGS;
  if (!has_peer(now.state)) return;
  out.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (depths_of(now).answered != 0)
    out.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

void fill_receive(const cm_id_object& id, const cm::endpoint_view& now, ibv_qp_attr& out,
                  int& mask) {
  out.ah_attr = cm_way(id, now.source, now.remote);
  out.path_mtu = static_cast<ibv_mtu>(cm_path_mtu(now));
  out.dest_qp_num = now.remote.queue_pair;
  out.rq_psn = now.local.starting_psn;
  mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (id.qp_type == IBV_QPT_UC) return;
  out.max_dest_rd_atomic = depths_of(now).answered;
  out.min_rnr_timer = rnr_timer;
  mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

void fill_send(const cm_id_object& id, const cm::endpoint_view& now, ibv_qp_attr& out, int& mask) {
  out.sq_psn = now.remote.starting_psn;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (id.qp_type == IBV_QPT_UC) return;
  out.timeout = id.acknowledge_timeout.value_or(default_timeout);
  out.retry_cnt = now.active ? now.local.retry_count : now.remote.retry_count;
  out.rnr_retry = now.remote.rnr_retry_count;
  out.max_rd_atomic = depths_of(now).begun;
  mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

int init_attributes(cm_id_object& id, ibv_qp_attr& out, int& mask) {
  if (id.verbs == nullptr) return EINVAL;
  const cm::endpoint_view now = id.home->manager->look(id.end);
  const bool connects = id.qp_type != IBV_QPT_UD && has_peer(now.state);
  if (!connects || out.qp_state == IBV_QPS_INIT) {
    fill_init(id, now, out, mask);
    return 0;
  }
  if (!has_reply(now.state)) return EINVAL;
  if (out.qp_state == IBV_QPS_RTR) {
    fill_receive(id, now, out, mask);
  } else if (out.qp_state == IBV_QPS_RTS) {
    fill_send(id, now, out, mask);
  } else {
    return EINVAL;
  }
  return 0;
}

constexpr std::uint8_t agreed_reads = RDMA_MAX_RESP_RES;
static_assert(RDMA_MAX_INIT_DEPTH == RDMA_MAX_RESP_RES);

// Modifies the state. `reads` is the depth of the direction that the state opens. Returns 0 or an
// errno.
int modify(cm_id_object& id, ibv_qp* qp, ibv_qp_state state, std::uint8_t reads = agreed_reads) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  if (const int refused = init_attributes(id, attributes, mask)) return refused;
  if (reads != agreed_reads)
    (state == IBV_QPS_RTR ? attributes.max_dest_rd_atomic : attributes.max_rd_atomic) = reads;
  return ibv_modify_qp(qp, &attributes, mask);
}

// Moves a new queue pair to INIT, so that it accepts receives; a UD queue pair to RTS.
int prepare(cm_id_object& id, ibv_qp* qp) {
  if (const int refused = modify(id, qp, IBV_QPS_INIT)) return refused;
  if (id.qp_type != IBV_QPT_UD) return 0;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  if (const int refused = ibv_modify_qp(qp, &attributes, IBV_QP_STATE)) return refused;
  attributes.qp_state = IBV_QPS_RTS;
  return ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

void destroy_queues(rdma_cm_id& id) noexcept {
  if (id.recv_cq != nullptr) ibv_destroy_cq(id.recv_cq);
  if (id.send_cq != nullptr && id.send_cq != id.recv_cq) ibv_destroy_cq(id.send_cq);
  id.recv_cq = id.send_cq = nullptr;
  if (id.recv_cq_channel != nullptr) ibv_destroy_comp_channel(id.recv_cq_channel);
  if (id.send_cq_channel != nullptr && id.send_cq_channel != id.recv_cq_channel)
    ibv_destroy_comp_channel(id.send_cq_channel);
  id.recv_cq_channel = id.send_cq_channel = nullptr;
}

bool create_queue(rdma_cm_id& id, std::uint32_t size, ibv_comp_channel*& channel, ibv_cq*& queue) {
  if (size == 0) return true;
  channel = ibv_create_comp_channel(id.verbs);
  if (channel == nullptr) return false;
  queue = ibv_create_cq(id.verbs, static_cast<int>(std::min(size, 1U << 30U)), &id, channel, 0);
  return queue != nullptr;
}

// Creates completion queues for the directions whose size is not 0. Returns 0, or -1 with errno.
int create_queues(rdma_cm_id& id, std::uint32_t sends, std::uint32_t receives) {
  if (create_queue(id, receives, id.recv_cq_channel, id.recv_cq) &&
      create_queue(id, sends, id.send_cq_channel, id.send_cq))
    return 0;
  const int failed = errno;
  destroy_queues(id);
  return cm_result(failed);
}

bool differ(const ibv_cq* one, const ibv_cq* other) noexcept {
  return one != nullptr && other != nullptr && one != other;
}

// Returns the inline data that adapters permit even if not requested: the size of the
// scatter/gather elements. Programs rely on it.
std::uint32_t free_inline_bytes(const ibv_qp_init_attr_ex& wanted) noexcept {
  const auto room = std::uint64_t{wanted.cap.max_send_sge} * sizeof(ibv_sge);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(room, 64));
}

int create_queue_pair(rdma_cm_id* id, ibv_qp_init_attr_ex* wanted) {
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (id->qp != nullptr || id->verbs == nullptr) return cm_result(EINVAL);
  if ((wanted->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted->pd == nullptr) {
    wanted->comp_mask |= IBV_QP_INIT_ATTR_PD;
    wanted->pd = id->pd;
  } else if (wanted->pd->context != id->verbs) {
    return cm_result(EINVAL);
  }
  if (differ(id->recv_cq, wanted->recv_cq) || differ(id->send_cq, wanted->send_cq))
    return cm_result(EINVAL);
  const bool has_sends = wanted->send_cq != nullptr || id->send_cq != nullptr;
  const bool has_receives = wanted->recv_cq != nullptr || id->recv_cq != nullptr;
  if (create_queues(*id, has_sends ? 0 : wanted->cap.max_send_wr,
                    has_receives ? 0 : wanted->cap.max_recv_wr) != 0)
    return -1;
  if (wanted->send_cq == nullptr) wanted->send_cq = id->send_cq;
  if (wanted->recv_cq == nullptr) wanted->recv_cq = id->recv_cq;
  if (wanted->srq == nullptr) wanted->srq = id->srq;
  if (wanted->qp_type == IBV_QPT_RC)
    wanted->cap.max_inline_data = std::max(wanted->cap.max_inline_data, free_inline_bytes(*wanted));
  ibv_qp* const made = ibv_create_qp_ex(id->verbs, wanted);
  if (made == nullptr) {
    const int failed = errno;
    destroy_queues(*id);
    return cm_result(failed);
  }
  if (const int failed = prepare(object, made)) {
    ibv_destroy_qp(made);
    destroy_queues(*id);
    return cm_result(failed);
  }
  id->pd = made->pd;
  id->qp = made;
  return 0;
}

int create_shared_queue(rdma_cm_id* id, ibv_srq_init_attr_ex* wanted) {
  if (!cm_usable(*object_of(id).home)) return -1;
  if (id->verbs == nullptr || (wanted->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0)
    return cm_result(EINVAL);
  if ((wanted->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || wanted->pd == nullptr) {
    wanted->pd = id->pd;
    wanted->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  }
  ibv_srq* const made = ibv_create_srq_ex(id->verbs, wanted);
  if (made == nullptr) return -1;
  if (id->pd == nullptr) id->pd = wanted->pd;
  id->srq = made;
  return 0;
}

}  // namespace

int cm_create_queue_pair(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* wanted) {
  ibv_qp_init_attr_ex extended{};
  std::memcpy(&extended, wanted, sizeof *wanted);
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd != nullptr ? pd : id->pd;
  const int failed = create_queue_pair(id, &extended);
  std::memcpy(wanted, &extended, sizeof *wanted);
  return failed;
}

void cm_destroy_queue_pair(rdma_cm_id* id) noexcept {
  if (id->qp != nullptr) ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  destroy_queues(*id);
}

void cm_destroy_shared_queue(rdma_cm_id* id) noexcept {
  if (id->srq != nullptr) ibv_destroy_srq(id->srq);
  id->srq = nullptr;
  destroy_queues(*id);
}

int cm_init_attributes(rdma_cm_id* id, ibv_qp_attr* out, int* mask) {
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (out == nullptr || mask == nullptr) return cm_result(EINVAL);
  return cm_result(init_attributes(object, *out, *mask));
}

int cm_make_ready(cm_id_object& id, std::uint8_t responder_resources,
                  std::uint8_t initiator_depth) {
  if (id.qp == nullptr) return 0;
  // Sets the access flags, which are known only now.
  if (const int refused = modify(id, id.qp, IBV_QPS_INIT)) return cm_result(refused);
  if (const int refused = modify(id, id.qp, IBV_QPS_RTR, responder_resources))
    return cm_result(refused);
  return cm_result(modify(id, id.qp, IBV_QPS_RTS, initiator_depth));
}

int cm_to_error(cm_id_object& id) {
  if (id.qp == nullptr) return 0;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return cm_result(ibv_modify_qp(id.qp, &attributes, IBV_QP_STATE));
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

#pragma GCC visibility push(default)
extern "C" {

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) try {
  const without_cancellation disabled;
  return cm_create_queue_pair(id, pd, qp_init_attr);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* qp_init_attr) try {
  const without_cancellation disabled;
  return create_queue_pair(id, qp_init_attr);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

void rdma_destroy_qp(rdma_cm_id* id) try {
  const without_cancellation disabled;
  cm_destroy_queue_pair(id);
}
VERBENA_END_OF_SILENT_C_FUNCTION

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) try {
  const without_cancellation disabled;
  ibv_srq_init_attr_ex extended{};
  std::memcpy(&extended, attr, sizeof *attr);
  extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  extended.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  extended.pd = pd;
  const int failed = create_shared_queue(id, &extended);
  std::memcpy(attr, &extended, sizeof *attr);
  return failed;
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attr) try {
  const without_cancellation disabled;
  return create_shared_queue(id, attr);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

void rdma_destroy_srq(rdma_cm_id* id) try {
  const without_cancellation disabled;
  cm_destroy_shared_queue(id);
}
VERBENA_END_OF_SILENT_C_FUNCTION

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* qp_attr, int* qp_attr_mask) try {
  const without_cancellation disabled;
  return cm_init_attributes(id, qp_attr, qp_attr_mask);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

}  // extern "C"
#pragma GCC visibility pop
