// SPDX-License-Identifier: MIT
// The functions of libefa. With another persona they report EOPNOTSUPP, as libefa does for devices
// of other drivers.
#include "softdev/shim/efadv.hpp"
#include "softdev/ipc/cancellation.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>

#include "softdev/shim/answers.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/guard.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {
namespace {

// Returns whether a newer program has set bytes beyond the struct that is known here.
template <class T>
bool says_more(const void* given, std::uint32_t size) noexcept {
  if (size <= sizeof(T)) return false;
  const std::span bytes(static_cast<const std::byte*>(given), size);
  return std::ranges::any_of(bytes.subspan(sizeof(T)),
                             [](std::byte one) { return one != std::byte{}; });
}

ibv_qp* create_scalable(ibv_context& context, ibv_qp_init_attr_ex& wanted) {
  constexpr std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((wanted.comp_mask & ~known) != 0) return fail(refuse(refusals::extension_of_efa));
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted.pd == nullptr ||
      wanted.pd->context != &context)
    return fail(EINVAL);
  queue_pair_creation what = creation_of(wanted);
  what.scalable = true;
  return create_queue_pair(what, wanted.cap);
}

// Reads the sender's GID. Fails if the sender has an address handle number.
int read_sgid(efadv_cq* cq, ibv_gid* sgid) {
  const cq_object& of = *static_cast<efa_cq_functions*>(cq)->of;
  if (of.now.source_lid != unknown_sender) return -ENOENT;
  const gid_entry only = of.context_of->host->adapter().gids().at(0);
  std::memcpy(sgid->raw, only.gid.data(), sizeof sgid->raw);
  return 0;
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

#pragma GCC visibility push(default)
extern "C" {

ibv_qp* efadv_create_driver_qp(ibv_pd* pd, ibv_qp_init_attr* attributes,
                               std::uint32_t driver_qp_type) try {
  const without_cancellation disabled;
  if (!is_efa(*pd->context)) return fail(refuse(refusals::function_of_efa));
  if (attributes->qp_type != IBV_QPT_DRIVER) return fail(EINVAL);
  if (driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD) return fail(refuse(refusals::extension_of_efa));
  queue_pair_creation what{.pd = pd, .wanted = *attributes, .scalable = true};
  return create_queue_pair(what, attributes->cap);
}
VERBENA_END_OF_C_FUNCTION(null)

ibv_qp* efadv_create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted,
                           efadv_qp_init_attr* efa_wanted, std::uint32_t size) try {
  const without_cancellation disabled;
  if (!is_efa(*context)) return fail(refuse(refusals::function_of_efa));
  efa_qp_init_attr more{};
  if (wanted->qp_type != IBV_QPT_DRIVER || size < sizeof more) return fail(EINVAL);
  std::memcpy(&more, efa_wanted, sizeof more);
  if (more.comp_mask != 0 || more.reserved != 0 || says_more<efa_qp_init_attr>(efa_wanted, size))
    return fail(EINVAL);
  if (more.driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD || more.flags != 0)
    return fail(refuse(refusals::extension_of_efa));
  return create_scalable(*context, *wanted);
}
VERBENA_END_OF_C_FUNCTION(null)

int efadv_query_device(ibv_context* context, efadv_device_attr* attributes,
                       std::uint32_t size) try {
  const without_cancellation disabled;
  if (!is_efa(*context)) return refuse(refusals::function_of_efa);
  if (size < offsetof(efadv_device_attr, reserved)) return EINVAL;
  efadv_device_attr answer{};
  answer.max_sq_wr = efa_identity::max_send_wr;
  answer.max_rq_wr = efa_identity::max_receive_wr;
  answer.max_sq_sge = efa_identity::max_send_sge;
  answer.max_rq_sge = efa_identity::max_receive_sge;
  answer.inline_buf_size = efa_identity::max_inline_bytes;
  if (size >= sizeof answer) {
    answer.device_caps = EFADV_DEVICE_ATTR_CAPS_RDMA_READ | EFADV_DEVICE_ATTR_CAPS_RNR_RETRY |
                         EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID | efa_caps_rdma_write;
    answer.max_rdma_size = limits::max_message_bytes;
  }
  copy_sized(answer, attributes, size);
  return 0;
}
VERBENA_END_OF_C_FUNCTION(code)

int efadv_query_ah(ibv_ah* ah, efadv_ah_attr* attributes, std::uint32_t size) try {
  const without_cancellation disabled;
  if (!is_efa(*ah->context)) return refuse(refusals::function_of_efa);
  if (size < offsetof(efadv_ah_attr, reserved)) return EINVAL;
  efadv_ah_attr answer{};
  answer.ahn = known_sender;
  copy_sized(answer, attributes, size);
  return 0;
}
VERBENA_END_OF_C_FUNCTION(code)

ibv_cq_ex* efadv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* wanted,
                           efadv_cq_init_attr* efa_wanted, std::uint32_t size) try {
  const without_cancellation disabled;
  if (!is_efa(*context)) return fail(refuse(refusals::function_of_efa));
  efadv_cq_init_attr more{};
  if (size < sizeof more) return fail(EINVAL);
  std::memcpy(&more, efa_wanted, sizeof more);
  if (more.comp_mask != 0 || says_more<efadv_cq_init_attr>(efa_wanted, size)) return fail(EINVAL);
  if ((more.wc_flags & ~std::uint64_t{EFADV_WC_EX_WITH_SGID}) != 0)
    return fail(refuse(refusals::extension_of_efa));
  ibv_cq_ex* const cq = create_cq_ex(context, wanted);
  if (cq != nullptr && (more.wc_flags & EFADV_WC_EX_WITH_SGID) != 0)
    object_of(cq).efa.wc_read_sgid = &read_sgid;
  return cq;
}
VERBENA_END_OF_C_FUNCTION(null)

efadv_cq* efadv_cq_from_ibv_cq_ex(ibv_cq_ex* cq) try {
  const without_cancellation disabled;
  object_of(cq).efa.of = &object_of(cq);
  return &object_of(cq).efa;
}
VERBENA_END_OF_C_FUNCTION(null)

// Reports no interconnect IDs: soft0 has none.
int efa_query_mr(ibv_mr* mr, void* attributes, std::uint32_t size) {
  if (!is_efa(*mr->context)) return refuse(refusals::function_of_efa);
  if (size < sizeof(efa_mr_attr)) return EINVAL;
  copy_sized(efa_mr_attr{}, attributes, size);
  return 0;
}

// soft0 has no queues that a program could access directly.
int efa_query_qp_wqs(ibv_qp* /*qp*/, void* /*sends*/, void* /*receives*/, std::uint32_t /*size*/) {
  return refuse(refusals::extension_of_efa);
}
int efa_query_cq(ibv_cq* /*cq*/, void* /*attributes*/, std::uint32_t /*size*/) {
  return refuse(refusals::extension_of_efa);
}

int efa_get_max_sq_depth(ibv_context* context, void* attributes, std::uint32_t size) {
  if (!is_efa(*context)) return -refuse(refusals::function_of_efa);
  efa_sq_depth_attr wanted{};
  if (size < sizeof wanted) return -EINVAL;
  std::memcpy(&wanted, attributes, sizeof wanted);
  if (wanted.comp_mask != 0 || says_more<efa_sq_depth_attr>(attributes, size)) return -EINVAL;
  if ((wanted.flags & ~efa_sq_depth_inline_write) != 0) return -refuse(refusals::extension_of_efa);
  const bool fits = wanted.max_send_sge <= efa_identity::max_send_sge &&
                    wanted.max_rdma_sge <= efa_identity::max_rdma_sge &&
                    wanted.max_inline_data <= efa_identity::max_inline_bytes;
  return fits ? static_cast<int>(efa_identity::max_send_wr) : -EINVAL;
}

int efa_get_max_rq_depth(ibv_context* context, void* attributes, std::uint32_t size) {
  if (!is_efa(*context)) return -refuse(refusals::function_of_efa);
  // The struct ends in padding, which the size of an older caller may not include.
  constexpr std::uint32_t needed =
      offsetof(efa_rq_depth_attr, max_recv_sge) + sizeof(efa_rq_depth_attr::max_recv_sge);
  efa_rq_depth_attr wanted{};
  if (size < needed) return -EINVAL;
  std::memcpy(&wanted, attributes, needed);
  if (wanted.comp_mask != 0 || says_more<efa_rq_depth_attr>(attributes, size)) return -EINVAL;
  const bool fits = wanted.max_recv_sge <= efa_identity::max_receive_sge;
  return fits ? static_cast<int>(efa_identity::max_receive_wr) : -EINVAL;
}

// soft0 supports neither processing hints nor completion counters.
void* efa_qp_from_ibv_qp_ex(ibv_qp_ex* /*qp*/) { return fail(refuse(refusals::extension_of_efa)); }
void* efa_create_comp_cntr(ibv_context* /*context*/, void* /*attributes*/, void* /*more*/,
                           std::uint32_t /*size*/) {
  return fail(refuse(refusals::extension_of_efa));
}

}  // extern "C"
#pragma GCC visibility pop
