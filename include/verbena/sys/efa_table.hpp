// SPDX-License-Identifier: MIT
// The functions of libefa that this library calls. The table does not need the header of libefa.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "verbena/sys/verb.hpp"

extern "C" {
struct efadv_ah_attr;
struct efadv_cq;
struct efadv_cq_init_attr;
struct efadv_device_attr;
struct efadv_qp_init_attr;
}

namespace verbena::inline VERBENA_ABI::sys {

/// Functions of one libefa, real or software. Each takes the size of its last structure, so library
/// and header may have different versions. Source: efadv(7). Threads: immutable once filled.
struct efa_table {
  /// Abbreviation for the members below.
  using f = failure;

  verb<"efadv_query_device", f::positive_errno,
       int(ibv_context*, efadv_device_attr*, std::uint32_t)>
      query_device;
  verb<"efadv_query_ah", f::positive_errno, int(ibv_ah*, efadv_ah_attr*, std::uint32_t)> query_ah;
  verb<"efadv_create_qp_ex", f::null_and_errno,
       ibv_qp*(ibv_context*, ibv_qp_init_attr_ex*, efadv_qp_init_attr*, std::uint32_t)>
      create_qp_ex;
  verb<"efadv_create_cq", f::null_and_errno,
       ibv_cq_ex*(ibv_context*, ibv_cq_init_attr_ex*, efadv_cq_init_attr*, std::uint32_t)>
      create_cq;
  verb<"efadv_cq_from_ibv_cq_ex", f::cannot_fail, efadv_cq*(ibv_cq_ex*)> cq_from_ibv_cq_ex;

  /// Calls `visit(member)` for every function of the table.
  template <class Visitor>
  void for_each(Visitor&& visit) {
    const auto all = [&](auto&... verbs) { (visit(verbs), ...); };
    all(query_device, query_ah, create_qp_ex, create_cq, cq_from_ibv_cq_ex);
  }
};

}  // namespace verbena::inline VERBENA_ABI::sys
