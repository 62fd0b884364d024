// SPDX-License-Identifier: MIT
// Connections of identifiers: listen, connect, accept, reject, disconnect.
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/core/types.hpp"
#include "softdev/ipc/cancellation.hpp"
#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_operations.hpp"
#include "softdev/shim/cm_wire.hpp"
#include "softdev/shim/guard.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {
namespace {

constexpr auto most_reads = static_cast<std::uint8_t>(limits::max_rd_atomic);
constexpr std::uint8_t most_retries = 7;

// Checks the depths of a connection. Returns 0 or EINVAL.
int check(const cm_id_object& id, const rdma_conn_param* wanted) noexcept {
  if (id.ps != RDMA_PS_TCP) return 0;
  if (wanted == nullptr) return id.qp != nullptr ? 0 : EINVAL;
  const bool answers =
      wanted->responder_resources == RDMA_MAX_RESP_RES || wanted->responder_resources <= most_reads;
  const bool begins =
      wanted->initiator_depth == RDMA_MAX_INIT_DEPTH || wanted->initiator_depth <= most_reads;
  return answers && begins ? 0 : EINVAL;
}

// Returns 0, or EINVAL if the private data exceeds the capacity of a message.
int append(cm::private_data& to, const void* bytes, std::size_t length) noexcept {
  if (bytes == nullptr) return 0;
  if (length > to.bytes.size() - to.length) return EINVAL;
  std::memcpy(to.bytes.data() + to.length, bytes, length);
  to.length = static_cast<std::uint8_t>(to.length + length);
  return 0;
}

// Returns the values that this side sends to its peer.
cm::side side_of(const cm_id_object& id, const rdma_conn_param* wanted) {
  host& home = cm_host(id);
  cm::side out;
  const ibv_gid gid = cm_gid(home, cm_gid_index(home, id.home->manager->look(id.end).source));
  std::ranges::copy(gid.raw, out.gid.begin());
  out.path_mtu = cm_path_mtu_to(home, id.home->manager->look(id.end).destination);
  out.lid =
      home.persona().kind == persona_kind::infiniband ? home.core().port().lid() : std::uint16_t{0};
  out.queue_key = id.qp_type == IBV_QPT_UD ? std::uint32_t{RDMA_UDP_QKEY} : 0;
  out.responder_resources = id.responder_resources;
  out.initiator_depth = id.initiator_depth;
  out.retry_count = out.rnr_retry_count = most_retries;
  if (wanted != nullptr) {
    out.flow_control = wanted->flow_control;
    out.retry_count = std::min(wanted->retry_count, most_retries);
    out.rnr_retry_count = std::min(wanted->rnr_retry_count, most_retries);
    out.queue_pair = wanted->qp_num;
    out.shared_receives = wanted->srq != 0 ? 1 : 0;
  }
  if (id.qp != nullptr) {
    out.queue_pair = id.qp->qp_num;
    out.shared_receives = id.qp->srq != nullptr ? 1 : 0;
  }
  constexpr std::uint32_t queue_pair_mask = 0xff'ffff;
  out.queue_pair &= queue_pair_mask;
  out.vendor = id.local_ece.vendor_id;
  out.options = id.local_ece.options;
  return out;
}

int propose(const cm_id_object& id, const rdma_conn_param* wanted, cm::proposal& out) {
  out.local = side_of(id, wanted);
  out.data = id.prefix;
  return wanted == nullptr ? 0 : append(out.data, wanted->private_data, wanted->private_data_len);
}

int connect(cm_id_object& id, const rdma_conn_param* wanted) {
  if (const int refused = check(id, wanted)) return refused;
  const auto chosen = [](bool said, std::uint8_t number) {
    return said && number != RDMA_MAX_RESP_RES ? number : most_reads;
  };
  id.initiator_depth = chosen(wanted != nullptr, wanted != nullptr ? wanted->initiator_depth : 0);
  id.responder_resources =
      chosen(wanted != nullptr, wanted != nullptr ? wanted->responder_resources : 0);
  cm::proposal what;
  if (const int refused = propose(id, wanted, what)) return refused;
  if (const int refused = id.home->manager->connect(id.end, what)) return refused;
  id.prefix = {};
  return 0;
}

int accept(cm_id_object& id, const rdma_conn_param* wanted) {
  if (id.qp == nullptr && wanted == nullptr) return EINVAL;
  if (const int refused = check(id, wanted)) return refused;
  const bool limits_begun = wanted == nullptr || wanted->initiator_depth == RDMA_MAX_INIT_DEPTH;
  id.initiator_depth =
      limits_begun ? std::min(id.initiator_depth, most_reads) : wanted->initiator_depth;
  const bool limits_answered =
      wanted == nullptr || wanted->responder_resources == RDMA_MAX_RESP_RES;
  id.responder_resources =
      limits_answered ? std::min(id.responder_resources, most_reads) : wanted->responder_resources;
  cm::proposal what;
  if (const int refused = propose(id, wanted, what)) return refused;
  if (id.qp_type != IBV_QPT_UD) {
    if (cm_make_ready(id, id.responder_resources, id.initiator_depth) != 0) return errno;
  }
  const int refused = id.home->manager->accept(id.end, what);
  if (refused != 0) static_cast<void>(cm_to_error(id));
  return refused;
}

int reject(rdma_cm_id* id, std::uint32_t reason, const void* bytes, std::uint8_t length) {
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  cm::private_data data;
  if (const int refused = append(data, bytes, length)) return cm_result(refused);
  return cm_result(object.home->manager->reject(object.end, reason, data));
}

}  // namespace

int cm_confirm(cm_id_object& id) {
  const bool ready = cm_make_ready(id, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH) == 0;
  const int failed = ready ? id.home->manager->establish(id.end) : errno;
  if (failed != 0) static_cast<void>(cm_to_error(id));
  return cm_result(failed);
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

#pragma GCC visibility push(default)
extern "C" {

int rdma_listen(rdma_cm_id* id, int backlog) try {
  const without_cancellation disabled;
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (const int refused = object.home->manager->listen(object.end, backlog))
    return cm_result(refused);
  cm_refresh(object);
  return 0;
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_connect(rdma_cm_id* id, rdma_conn_param* conn_param) try {
  const without_cancellation disabled;
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (const int refused = connect(object, conn_param)) return cm_result(refused);
  return cm_complete(object);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_accept(rdma_cm_id* id, rdma_conn_param* conn_param) try {
  const without_cancellation disabled;
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (const int refused = accept(object, conn_param)) return cm_result(refused);
  if (id->qp_type != IBV_QPT_UD) return cm_complete(object);
  if (object.synchronous) cm_acknowledge_own(object);
  return 0;
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_establish(rdma_cm_id* id) try {
  const without_cancellation disabled;
  if (!cm_usable(*object_of(id).home)) return -1;
  return id->qp != nullptr ? cm_result(EINVAL) : cm_confirm(object_of(id));
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) try {
  const without_cancellation disabled;
  return reject(id, cm::reject_reason::consumer, private_data, private_data_len);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_reject_ece(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) try {
  const without_cancellation disabled;
  return reject(id, cm::reject_reason::vendor_option, private_data, private_data_len);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_notify(rdma_cm_id* id, ibv_event_type event) try {
  const without_cancellation disabled;
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (event != IBV_EVENT_COMM_EST) return cm_result(EINVAL);
  return cm_result(object.home->manager->note_established(object.end));
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_disconnect(rdma_cm_id* id) try {
  const without_cancellation disabled;
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (id->verbs == nullptr) return cm_result(EINVAL);
  if (cm_to_error(object) != 0) return -1;
  if (const int refused = object.home->manager->disconnect(object.end)) return cm_result(refused);
  return cm_complete(object);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

}  // extern "C"
#pragma GCC visibility pop
