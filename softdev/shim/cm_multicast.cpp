// SPDX-License-Identifier: MIT
// Multicast groups, which the device does not have, and what later versions of rdma_cma.h added.
#include <rdma/rdma_cma.h>

#include <cerrno>

#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_operations.hpp"

namespace verbena::softdev {
namespace {

// What the call would refuse in any case comes first.
int join(const sockaddr* group) {
  return cm_result(cm_address_length(group) == 0 ? EINVAL : EOPNOTSUPP);
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

// A newer rdma_cma.h may declare these with types that are not known here, so the names differ.
#pragma GCC visibility push(default)
extern "C" {
int cm_resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                        const rdma_addrinfo* hints) __asm__("rdma_resolve_addrinfo");
int cm_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info) __asm__("rdma_query_addrinfo");
int cm_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status,
                      std::uint64_t arg) __asm__("rdma_write_cm_event");

int rdma_join_multicast(rdma_cm_id* /*id*/, sockaddr* addr, void* /*context*/) {
  return join(addr);
}

int rdma_join_multicast_ex(rdma_cm_id* /*id*/, rdma_cm_join_mc_attr_ex* mc_join_attr,
                           void* /*context*/) {
  constexpr std::uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if (mc_join_attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) return cm_result(ENOTSUP);
  if ((mc_join_attr->comp_mask & needed) != needed ||
      mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
    return cm_result(EINVAL);
  return join(mc_join_attr->addr);
}

// Nobody is in a group.
int rdma_leave_multicast(rdma_cm_id* /*id*/, sockaddr* addr) {
  return cm_result(cm_address_length(addr) == 0 ? EINVAL : EADDRNOTAVAIL);
}

int cm_resolve_addrinfo(rdma_cm_id* /*id*/, const char* /*node*/, const char* /*service*/,
                        const rdma_addrinfo* /*hints*/) {
  return cm_result(EOPNOTSUPP);
}
int cm_query_addrinfo(rdma_cm_id* /*id*/, rdma_addrinfo** /*info*/) {
  return cm_result(EOPNOTSUPP);
}
int cm_write_cm_event(rdma_cm_id* /*id*/, rdma_cm_event_type /*event*/, int /*status*/,
                      std::uint64_t /*arg*/) {
  return cm_result(EOPNOTSUPP);
}

}  // extern "C"
#pragma GCC visibility pop
