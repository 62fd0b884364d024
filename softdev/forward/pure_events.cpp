// SPDX-License-Identifier: MIT
// rdma_event_str needs no connection manager. The texts are part of librdmacm's interface: programs
// compare them.
#include <rdma/rdma_cma.h>

extern "C" __attribute__((visibility("default"))) const char* rdma_event_str(
    rdma_cm_event_type event) {
  // The names after that of RDMA_CM_EVENT_TIMEWAIT_EXIT are newer than rdma-core 44.
  static constexpr const char* names[] = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",
      "RDMA_CM_EVENT_ADDR_ERROR",
      "RDMA_CM_EVENT_ROUTE_RESOLVED",
      "RDMA_CM_EVENT_ROUTE_ERROR",
      "RDMA_CM_EVENT_CONNECT_REQUEST",
      "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",
      "RDMA_CM_EVENT_UNREACHABLE",
      "RDMA_CM_EVENT_REJECTED",
      "RDMA_CM_EVENT_ESTABLISHED",
      "RDMA_CM_EVENT_DISCONNECTED",
      "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN",
      "RDMA_CM_EVENT_MULTICAST_ERROR",
      "RDMA_CM_EVENT_ADDR_CHANGE",
      "RDMA_CM_EVENT_TIMEWAIT_EXIT",
      "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
      "RDMA_CM_EVENT_ADDRINFO_ERROR",
      "RDMA_CM_EVENT_USER",
      "RDMA_CM_EVENT_INTERNAL",
  };
  static_assert(RDMA_CM_EVENT_TIMEWAIT_EXIT == 15);
  constexpr auto count = sizeof names / sizeof names[0];
  const auto index = static_cast<unsigned>(event);
  return index < count ? names[index] : "UNKNOWN EVENT";
}
