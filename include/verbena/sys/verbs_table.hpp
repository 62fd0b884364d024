// SPDX-License-Identifier: MIT
// The functions of libibverbs that this library calls. The members lack the prefix `ibv_`, because
// some names with the prefix are macros of verbs.h. The functions of the data path are not in the
// table: they are pointers in the provider's own objects.
#pragma once

#include <infiniband/verbs.h>

#include "verbena/sys/verb.hpp"

// The headers of rdma-core 28 do not declare the type.
extern "C" {
struct ibv_gid_entry;
}

namespace verbena::inline VERBENA_ABI::sys {

/// Functions of one libibverbs, real or software. Threads: immutable once filled.
struct verbs_table {
  /// Abbreviation for the members below.
  using f = failure;

  // devices
  verb<"ibv_get_device_list", f::null_and_errno, ibv_device**(int*)> get_device_list;
  verb<"ibv_free_device_list", f::cannot_fail, void(ibv_device**)> free_device_list;
  verb<"ibv_get_device_name", f::cannot_fail, const char*(ibv_device*)> get_device_name;
  verb<"ibv_get_device_guid", f::cannot_fail, __be64(ibv_device*)> get_device_guid;
  verb<"ibv_get_device_index", f::cannot_fail, int(ibv_device*)> get_device_index;
  verb<"ibv_open_device", f::null_and_errno, ibv_context*(ibv_device*)> open_device;
  verb<"ibv_close_device", f::minus_one_and_errno, int(ibv_context*)> close_device;

  // contexts
  verb<"ibv_query_device", f::positive_errno, int(ibv_context*, ibv_device_attr*)> query_device;
  verb<"ibv_query_gid", f::minus_one_and_errno, int(ibv_context*, std::uint8_t, int, ibv_gid*)>
      query_gid;
  verb<"_ibv_query_gid_ex", f::positive_errno,
       int(ibv_context*, std::uint32_t, std::uint32_t, ibv_gid_entry*, std::uint32_t, std::size_t)>
      query_gid_ex;
  verb<"_ibv_query_gid_table", f::negative_errno,
       ssize_t(ibv_context*, ibv_gid_entry*, std::size_t, std::uint32_t, std::size_t)>
      query_gid_table;
  verb<"ibv_query_pkey", f::minus_one_and_errno, int(ibv_context*, std::uint8_t, int, __be16*)>
      query_pkey;
  verb<"ibv_get_async_event", f::minus_one_and_errno, int(ibv_context*, ibv_async_event*)>
      get_async_event;
  verb<"ibv_ack_async_event", f::cannot_fail, void(ibv_async_event*)> ack_async_event;

  // protection domains and memory
  verb<"ibv_alloc_pd", f::null_and_errno, ibv_pd*(ibv_context*)> alloc_pd;
  verb<"ibv_dealloc_pd", f::positive_errno, int(ibv_pd*)> dealloc_pd;
  verb<"ibv_reg_mr", f::null_and_errno, ibv_mr*(ibv_pd*, void*, std::size_t, int)> reg_mr;
  verb<"ibv_reg_mr_iova2", f::null_and_errno,
       ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned)>
      reg_mr_iova2;
  verb<"ibv_reg_dmabuf_mr", f::null_and_errno,
       ibv_mr*(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int)>
      reg_dmabuf_mr;
  verb<"ibv_dereg_mr", f::positive_errno, int(ibv_mr*)> dereg_mr;

  // address handles
  verb<"ibv_create_ah", f::null_and_errno, ibv_ah*(ibv_pd*, ibv_ah_attr*)> create_ah;
  verb<"ibv_destroy_ah", f::positive_errno, int(ibv_ah*)> destroy_ah;

  // shared receive queues
  verb<"ibv_create_srq", f::null_and_errno, ibv_srq*(ibv_pd*, ibv_srq_init_attr*)> create_srq;
  verb<"ibv_modify_srq", f::positive_errno, int(ibv_srq*, ibv_srq_attr*, int)> modify_srq;
  verb<"ibv_query_srq", f::positive_errno, int(ibv_srq*, ibv_srq_attr*)> query_srq;
  verb<"ibv_destroy_srq", f::positive_errno, int(ibv_srq*)> destroy_srq;

  // completions
  verb<"ibv_create_comp_channel", f::null_and_errno, ibv_comp_channel*(ibv_context*)>
      create_comp_channel;
  verb<"ibv_destroy_comp_channel", f::positive_errno, int(ibv_comp_channel*)> destroy_comp_channel;
  verb<"ibv_create_cq", f::null_and_errno,
       ibv_cq*(ibv_context*, int, void*, ibv_comp_channel*, int)>
      create_cq;
  verb<"ibv_destroy_cq", f::positive_errno, int(ibv_cq*)> destroy_cq;
  verb<"ibv_resize_cq", f::positive_errno, int(ibv_cq*, int)> resize_cq;
  verb<"ibv_get_cq_event", f::minus_one_and_errno, int(ibv_comp_channel*, ibv_cq**, void**)>
      get_cq_event;
  verb<"ibv_ack_cq_events", f::cannot_fail, void(ibv_cq*, unsigned)> ack_cq_events;

  // queue pairs
  verb<"ibv_create_qp", f::null_and_errno, ibv_qp*(ibv_pd*, ibv_qp_init_attr*)> create_qp;
  verb<"ibv_qp_to_qp_ex", f::null_and_errno, ibv_qp_ex*(ibv_qp*)> qp_to_qp_ex;
  verb<"ibv_modify_qp", f::positive_errno, int(ibv_qp*, ibv_qp_attr*, int)> modify_qp;
  verb<"ibv_query_qp", f::positive_errno, int(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*)>
      query_qp;
  verb<"ibv_destroy_qp", f::positive_errno, int(ibv_qp*)> destroy_qp;
  verb<"ibv_attach_mcast", f::positive_errno, int(ibv_qp*, const ibv_gid*, std::uint16_t)>
      attach_mcast;
  verb<"ibv_detach_mcast", f::positive_errno, int(ibv_qp*, const ibv_gid*, std::uint16_t)>
      detach_mcast;

  // Inline functions of verbs.h, implemented on the context's own table. They are members so that
  // failing_provider can make them fail too.
  verb<"ibv_query_port", f::positive_errno, int(ibv_context*, std::uint8_t, ibv_port_attr*)>
      query_port;
  verb<"ibv_query_device_ex", f::positive_errno, int(ibv_context*, ibv_device_attr_ex*)>
      query_device_ex;
  verb<"ibv_create_cq_ex", f::null_and_errno, ibv_cq_ex*(ibv_context*, ibv_cq_init_attr_ex*)>
      create_cq_ex;
  verb<"ibv_create_qp_ex", f::null_and_errno, ibv_qp*(ibv_context*, ibv_qp_init_attr_ex*)>
      create_qp_ex;
  verb<"ibv_req_notify_cq", f::positive_errno, int(ibv_cq*, int)> req_notify_cq;
  verb<"ibv_modify_cq", f::positive_errno, int(ibv_cq*, ibv_modify_cq_attr*)> modify_cq;
  verb<"ibv_query_rt_values_ex", f::positive_errno, int(ibv_context*, ibv_values_ex*)>
      query_rt_values_ex;
  verb<"ibv_advise_mr", f::positive_errno,
       int(ibv_pd*, ib_uverbs_advise_mr_advice, std::uint32_t, ibv_sge*, std::uint32_t)>
      advise_mr;

  /// Calls `visit(member)` for every exported function of the table.
  template <class Visitor>
  void for_each_exported(Visitor&& visit) {
    const auto all = [&](auto&... verbs) { (visit(verbs), ...); };
    all(get_device_list, free_device_list, get_device_name, get_device_guid, get_device_index,
        open_device, close_device, query_device, query_gid, query_gid_ex, query_gid_table,
        query_pkey, get_async_event, ack_async_event, alloc_pd, dealloc_pd, reg_mr, reg_mr_iova2,
        reg_dmabuf_mr, dereg_mr, create_ah, destroy_ah, create_srq, modify_srq, query_srq,
        destroy_srq, create_comp_channel, destroy_comp_channel, create_cq, destroy_cq, resize_cq,
        get_cq_event, ack_cq_events, create_qp, qp_to_qp_ex, modify_qp, query_qp, destroy_qp,
        attach_mcast, detach_mcast);
  }
  /// Calls `visit(member)` for every function that uses the context's own table.
  template <class Visitor>
  void for_each_inline(Visitor&& visit) {
    const auto all = [&](auto&... verbs) { (visit(verbs), ...); };
    all(query_port, query_device_ex, create_cq_ex, create_qp_ex, req_notify_cq, modify_cq,
        query_rt_values_ex, advise_mr);
  }
  /// Calls `visit(member)` for every function of the table.
  template <class Visitor>
  void for_each(Visitor&& visit) {
    for_each_exported(visit);
    for_each_inline(visit);
  }
};

}  // namespace verbena::inline VERBENA_ABI::sys
