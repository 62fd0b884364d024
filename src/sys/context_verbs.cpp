// SPDX-License-Identifier: MIT
#include "src/sys/context_verbs.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace verbena::inline VERBENA_ABI::sys {
namespace {

// Returns the extended table of `context` if the table contains `Member`, otherwise nullptr.
template <auto Member>
verbs_context* table_with(ibv_context* context) noexcept {
  verbs_context* extended = verbs_get_ctx(context);
  if (extended == nullptr) return nullptr;
  // The structure grows at its front: `sz` counts from its end.
  const auto* begin = reinterpret_cast<const std::byte*>(extended);
  const auto* member = reinterpret_cast<const std::byte*>(&(extended->*Member));
  const auto reach = sizeof *extended - static_cast<std::size_t>(member - begin);
  if (extended->sz < reach || extended->*Member == nullptr) return nullptr;
  return extended;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out) {
  std::memset(out, 0, sizeof *out);
  if (verbs_context* extended = table_with<&verbs_context::query_port>(context))
    return extended->query_port(context, port, out, sizeof *out);
  // The old function fills only the members of the old structure.
  return context->ops._compat_query_port(context, port,
                                         reinterpret_cast<_compat_ibv_port_attr*>(out));
}

int query_device_ex(ibv_context* context, ibv_device_attr_ex* out) {
  verbs_context* extended = table_with<&verbs_context::query_device_ex>(context);
  if (extended == nullptr) return EOPNOTSUPP;
  std::memset(out, 0, sizeof *out);
  return extended->query_device_ex(context, nullptr, out, sizeof *out);
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  verbs_context* extended = table_with<&verbs_context::create_cq_ex>(context);
  if (extended == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return extended->create_cq_ex(context, attributes);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  verbs_context* extended = table_with<&verbs_context::create_qp_ex>(context);
  if (extended == nullptr) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return extended->create_qp_ex(context, attributes);
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  return cq->context->ops.req_notify_cq(cq, solicited_only);
}

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* changes) {
  verbs_context* extended = table_with<&verbs_context::modify_cq>(cq->context);
  return extended != nullptr ? extended->modify_cq(cq, changes) : EOPNOTSUPP;
}

int query_rt_values_ex(ibv_context* context, ibv_values_ex* values) {
  verbs_context* extended = table_with<&verbs_context::query_rt_values>(context);
  return extended != nullptr ? extended->query_rt_values(context, values) : EOPNOTSUPP;
}

int advise_mr(ibv_pd* pd, ib_uverbs_advise_mr_advice advice, std::uint32_t flags, ibv_sge* slices,
              std::uint32_t count) {
  verbs_context* extended = table_with<&verbs_context::advise_mr>(pd->context);
  return extended != nullptr ? extended->advise_mr(pd, advice, flags, slices, count) : EOPNOTSUPP;
}

}  // namespace

void set_context_verbs(verbs_table& table) noexcept {
  table.query_port.set(&query_port);
  table.query_device_ex.set(&query_device_ex);
  table.create_cq_ex.set(&create_cq_ex);
  table.create_qp_ex.set(&create_qp_ex);
  table.req_notify_cq.set(&req_notify_cq);
  table.modify_cq.set(&modify_cq);
  table.query_rt_values_ex.set(&query_rt_values_ex);
  table.advise_mr.set(&advise_mr);
}

}  // namespace verbena::inline VERBENA_ABI::sys
