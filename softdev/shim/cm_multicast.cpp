// SPDX-License-Identifier: MIT
// Multicast groups of identifiers, and functions of later versions of rdma_cma.h.
//
// Joining needs no message: a group exists as long as it has members. As in librdmacm, the queue
// pair is attached when the program takes the event.
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "softdev/ipc/cancellation.hpp"
#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_operations.hpp"
#include "softdev/shim/guard.hpp"
#include "softdev/shim/not_supported.hpp"

namespace verbena::softdev {
namespace {

// The Q_Key of groups, as in the kernel.
constexpr std::uint32_t group_queue_key = RDMA_UDP_QKEY;
constexpr std::uint8_t group_hop_limit = 1;

bool may_join(const cm_id_object& id) {
  if (id.verbs == nullptr || id.qp_type != IBV_QPT_UD) return false;
  const cm::phase now = id.home->manager->look(id.end).state;
  return now == cm::phase::bound || now == cm::phase::address_resolved;
}

// Refuses the addresses that the kernel refuses at once. For another address that is not a group,
// the event reports the error.
int join(rdma_cm_id* id, const sockaddr* group, bool send_only, void* context) {
  const auto wanted = to_cm_address(group);
  if (!wanted || cm::is_wildcard(*wanted)) return cm_result(EINVAL);
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (!may_join(object)) return cm_result(EINVAL);
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(object.lock);
    number = object.next_membership++;
    object.memberships.push_back(
        {.number = number, .group = *wanted, .context = context, .send_only = send_only});
  }
  cm::event joined;
  joined.kind = cm::event_kind::multicast_join;
  joined.membership = number;
  object.home->manager->post(object.end, std::move(joined));
  return cm_complete(object);
}

int leave(rdma_cm_id* id, const sockaddr* group) {
  const auto wanted = to_cm_address(group);
  if (!wanted) return cm_result(EINVAL);
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  cm_membership ended;
  {
    const std::lock_guard lock(object.lock);
    const auto found =
        std::ranges::find(object.memberships, *wanted, [](const auto& each) { return each.group; });
    if (found == object.memberships.end()) return cm_result(EADDRNOTAVAIL);
    ended = *found;
    object.memberships.erase(found);
  }
  object.home->manager->forget_joined(object.end, ended.number);
  if (object.qp == nullptr || ended.send_only) return 0;
  const cm_group where = cm_group_of(cm_host(object), ended.group);
  // May fail: the queue pair may be detached already, or was never attached.
  static_cast<void>(ibv_detach_mcast(object.qp, &where.gid, where.lid));
  return 0;
}

}  // namespace

bool cm_joined(cm_id_object& id, std::uint64_t membership, rdma_cm_event& out) {
  cm_membership joined;
  {
    const std::lock_guard lock(id.lock);
    const auto found = std::ranges::find(id.memberships, membership, &cm_membership::number);
    if (found == id.memberships.end()) return false;
    joined = *found;
  }
  host& home = cm_host(id);
  const cm_group where = cm_group_of(home, joined.group);
  out.param.ud = {};
  out.param.ud.private_data = joined.context;
  out.param.ud.qp_num = multicast_qpn;
  out.param.ud.qkey = group_queue_key;
  ibv_ah_attr& address = out.param.ud.ah_attr;
  address.is_global = 1;
  address.port_num = 1;
  address.dlid = where.lid;
  address.grh.dgid = where.gid;
  address.grh.sgid_index = cm_gid_index(home, id.home->manager->look(id.end).source);
  address.grh.hop_limit = group_hop_limit;
  address.grh.traffic_class = id.type_of_service;
  if (id.qp == nullptr || joined.send_only) return true;
  const int failed = ibv_attach_mcast(id.qp, &where.gid, where.lid);
  if (failed == 0) return true;
  out.event = RDMA_CM_EVENT_MULTICAST_ERROR;
  out.status = -failed;
  return true;
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

// A newer rdma_cma.h may declare these functions with types that are not known here, so their C++
// names differ.
#pragma GCC visibility push(default)
extern "C" {
int cm_resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                        const rdma_addrinfo* hints) __asm__("rdma_resolve_addrinfo");
int cm_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info) __asm__("rdma_query_addrinfo");
int cm_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status,
                      std::uint64_t arg) __asm__("rdma_write_cm_event");

int rdma_join_multicast(rdma_cm_id* id, sockaddr* addr, void* context) try {
  const without_cancellation disabled;
  return join(id, addr, false, context);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* mc_join_attr,
                           void* context) try {
  const without_cancellation disabled;
  constexpr std::uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if (mc_join_attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) return cm_result(ENOTSUP);
  if ((mc_join_attr->comp_mask & needed) != needed ||
      mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
    return cm_result(EINVAL);
  const bool send_only = mc_join_attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  return join(id, mc_join_attr->addr, send_only, context);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_leave_multicast(rdma_cm_id* id, sockaddr* addr) try {
  const without_cancellation disabled;
  return leave(id, addr);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int cm_resolve_addrinfo(rdma_cm_id* /*id*/, const char* /*node*/, const char* /*service*/,
                        const rdma_addrinfo* /*hints*/) {
  return cm_result(refuse(refusals::resolve_addrinfo));
}
int cm_query_addrinfo(rdma_cm_id* /*id*/, rdma_addrinfo** /*info*/) {
  return cm_result(refuse(refusals::query_addrinfo));
}
int cm_write_cm_event(rdma_cm_id* /*id*/, rdma_cm_event_type /*event*/, int /*status*/,
                      std::uint64_t /*arg*/) {
  return cm_result(refuse(refusals::write_cm_event));
}

}  // extern "C"
#pragma GCC visibility pop
