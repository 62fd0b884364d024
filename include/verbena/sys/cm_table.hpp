// SPDX-License-Identifier: MIT
// The functions of librdmacm that this library calls. The functions for queue pairs, endpoints and
// messages are not in the table, because this library uses verbs for them.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

#include "verbena/sys/verb.hpp"

// The headers of rdma-core 28 do not declare the type.
extern "C" {
struct ibv_ece;
}

namespace verbena::inline VERBENA_ABI::sys {

/// Functions of one librdmacm, real or software. Source: rdma_cm(7).
/// Threads: immutable once filled.
struct cm_table {
  /// Abbreviation for the members below.
  using f = failure;

  // event channels
  verb<"rdma_create_event_channel", f::null_and_errno, rdma_event_channel*()> create_event_channel;
  verb<"rdma_destroy_event_channel", f::cannot_fail, void(rdma_event_channel*)>
      destroy_event_channel;
  verb<"rdma_get_cm_event", f::minus_one_and_errno, int(rdma_event_channel*, rdma_cm_event**)>
      get_cm_event;
  verb<"rdma_ack_cm_event", f::cannot_fail, int(rdma_cm_event*)> ack_cm_event;

  // identifiers
  verb<"rdma_create_id", f::minus_one_and_errno,
       int(rdma_event_channel*, rdma_cm_id**, void*, rdma_port_space)>
      create_id;
  verb<"rdma_destroy_id", f::minus_one_and_errno, int(rdma_cm_id*)> destroy_id;
  verb<"rdma_migrate_id", f::minus_one_and_errno, int(rdma_cm_id*, rdma_event_channel*)> migrate_id;
  verb<"rdma_set_option", f::minus_one_and_errno, int(rdma_cm_id*, int, int, void*, std::size_t)>
      set_option;
  verb<"rdma_get_src_port", f::cannot_fail, __be16(rdma_cm_id*)> get_src_port;
  verb<"rdma_get_dst_port", f::cannot_fail, __be16(rdma_cm_id*)> get_dst_port;
  verb<"rdma_init_qp_attr", f::minus_one_and_errno, int(rdma_cm_id*, ibv_qp_attr*, int*)>
      init_qp_attr;
  verb<"rdma_set_local_ece", f::minus_one_and_errno, int(rdma_cm_id*, ibv_ece*)> set_local_ece;
  verb<"rdma_get_remote_ece", f::minus_one_and_errno, int(rdma_cm_id*, ibv_ece*)> get_remote_ece;

  // addresses
  verb<"rdma_bind_addr", f::minus_one_and_errno, int(rdma_cm_id*, sockaddr*)> bind_addr;
  verb<"rdma_resolve_addr", f::minus_one_and_errno, int(rdma_cm_id*, sockaddr*, sockaddr*, int)>
      resolve_addr;
  verb<"rdma_resolve_route", f::minus_one_and_errno, int(rdma_cm_id*, int)> resolve_route;
  verb<"rdma_getaddrinfo", f::minus_one_and_errno,
       int(const char*, const char*, const rdma_addrinfo*, rdma_addrinfo**)>
      getaddrinfo;
  verb<"rdma_freeaddrinfo", f::cannot_fail, void(rdma_addrinfo*)> freeaddrinfo;

  // connections
  verb<"rdma_listen", f::minus_one_and_errno, int(rdma_cm_id*, int)> listen;
  verb<"rdma_connect", f::minus_one_and_errno, int(rdma_cm_id*, rdma_conn_param*)> connect;
  verb<"rdma_accept", f::minus_one_and_errno, int(rdma_cm_id*, rdma_conn_param*)> accept;
  verb<"rdma_reject", f::minus_one_and_errno, int(rdma_cm_id*, const void*, std::uint8_t)> reject;
  verb<"rdma_reject_ece", f::minus_one_and_errno, int(rdma_cm_id*, const void*, std::uint8_t)>
      reject_ece;
  verb<"rdma_establish", f::minus_one_and_errno, int(rdma_cm_id*)> establish;
  verb<"rdma_notify", f::minus_one_and_errno, int(rdma_cm_id*, ibv_event_type)> notify;
  verb<"rdma_disconnect", f::minus_one_and_errno, int(rdma_cm_id*)> disconnect;

  // multicast
  verb<"rdma_join_multicast_ex", f::minus_one_and_errno,
       int(rdma_cm_id*, rdma_cm_join_mc_attr_ex*, void*)>
      join_multicast_ex;
  verb<"rdma_leave_multicast", f::minus_one_and_errno, int(rdma_cm_id*, sockaddr*)> leave_multicast;

  // devices
  verb<"rdma_get_devices", f::null_and_errno, ibv_context**(int*)> get_devices;
  verb<"rdma_free_devices", f::cannot_fail, void(ibv_context**)> free_devices;

  /// Calls `visit(member)` for every function of the table.
  template <class Visitor>
  void for_each(Visitor&& visit) {
    const auto all = [&](auto&... verbs) { (visit(verbs), ...); };
    all(create_event_channel, destroy_event_channel, get_cm_event, ack_cm_event, create_id,
        destroy_id, migrate_id, set_option, get_src_port, get_dst_port, init_qp_attr, set_local_ece,
        get_remote_ece, bind_addr, resolve_addr, resolve_route, getaddrinfo, freeaddrinfo, listen,
        connect, accept, reject, reject_ece, establish, notify, disconnect, join_multicast_ex,
        leave_multicast, get_devices, free_devices);
  }
};

}  // namespace verbena::inline VERBENA_ABI::sys
