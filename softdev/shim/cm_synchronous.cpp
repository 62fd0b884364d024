// SPDX-License-Identifier: MIT
// Endpoints (rdma_create_ep(3)): synchronous identifiers with a queue pair.
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "softdev/ipc/cancellation.hpp"
#include "softdev/shim/cm_operations.hpp"
#include "softdev/shim/guard.hpp"

namespace verbena::softdev {
namespace {

void destroy(rdma_cm_id* id) {
  if (id->qp != nullptr) cm_destroy_queue_pair(id);
  if (id->srq != nullptr) cm_destroy_shared_queue(id);
  static_cast<void>(cm_destroy_id(id));
}

// Returns 0, or -1 with errno.
int begin_passive(cm_id_object& id, const rdma_addrinfo& from, ibv_pd* pd,
                  const ibv_qp_init_attr* wanted) {
  if (cm_bind(&id, from.ai_src_addr) != 0) return -1;
  if (pd != nullptr) id.pd = pd;
  if (wanted == nullptr) return 0;
  id.wanted_queue_pair = std::make_unique<ibv_qp_init_attr>(*wanted);
  id.wanted_queue_pair->qp_type = static_cast<ibv_qp_type>(from.ai_qp_type);
  return 0;
}

int begin_active(cm_id_object& id, const rdma_addrinfo& from, ibv_pd* pd,
                 ibv_qp_init_attr* wanted) {
  if (cm_resolve_address(&id, from.ai_src_addr, from.ai_dst_addr) != 0) return -1;
  if (cm_resolve_route(&id) != 0) return -1;
  if (wanted != nullptr) {
    wanted->qp_type = static_cast<ibv_qp_type>(from.ai_qp_type);
    if (cm_create_queue_pair(&id, pd, wanted) != 0) return -1;
  }
  if (from.ai_connect_len == 0) return 0;
  if (from.ai_connect == nullptr || from.ai_connect_len > id.prefix.bytes.size())
    return cm_result(EINVAL);
  std::memcpy(id.prefix.bytes.data(), from.ai_connect, from.ai_connect_len);
  id.prefix.length = static_cast<std::uint8_t>(from.ai_connect_len);
  return 0;
}

int take_request(cm_id_object& listener, rdma_cm_event& event, rdma_cm_id** out) {
  if (event.status != 0) return cm_result(event.status < 0 ? -event.status : event.status);
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) return cm_result(EINVAL);
  if (listener.wanted_queue_pair != nullptr) {
    ibv_qp_init_attr wanted = *listener.wanted_queue_pair;
    if (cm_create_queue_pair(event.id, listener.pd, &wanted) != 0) return -1;
  }
  *out = event.id;
  event.id->event = &event;
  return 0;
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

#pragma GCC visibility push(default)
extern "C" {

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* res, ibv_pd* pd,
                   ibv_qp_init_attr* qp_init_attr) try {
  const without_cancellation disabled;
  if (id == nullptr || res == nullptr) return cm_result(EINVAL);
  rdma_cm_id* made = nullptr;
  if (cm_create_id(nullptr, &made, nullptr, static_cast<rdma_port_space>(res->ai_port_space),
                   static_cast<ibv_qp_type>(res->ai_qp_type)) != 0)
    return -1;
  const bool passive = (res->ai_flags & RAI_PASSIVE) != 0;
  const int failed = passive ? begin_passive(object_of(made), *res, pd, qp_init_attr)
                             : begin_active(object_of(made), *res, pd, qp_init_attr);
  if (failed == 0) {
    *id = made;
    return 0;
  }
  const int reason = errno;
  destroy(made);
  return cm_result(reason);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

void rdma_destroy_ep(rdma_cm_id* id) try {
  const without_cancellation disabled;
  destroy(id);
}
VERBENA_END_OF_SILENT_C_FUNCTION

int rdma_get_request(rdma_cm_id* listen, rdma_cm_id** id) try {
  const without_cancellation disabled;
  cm_id_object& object = object_of(listen);
  if (!object.synchronous || id == nullptr) return cm_result(EINVAL);
  cm_acknowledge_own(object);
  rdma_cm_event* event = nullptr;
  if (cm_get_event(listen->channel, &event) != 0) return -1;
  const int failed = take_request(object, *event, id);
  if (failed != 0) listen->event = event;
  return failed;
}
VERBENA_END_OF_C_FUNCTION(minus_one)

}  // extern "C"
#pragma GCC visibility pop
