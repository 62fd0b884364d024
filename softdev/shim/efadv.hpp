// SPDX-License-Identifier: MIT
// Functions and structs of libefa that the oldest supported efadv.h (rdma-core 44) lacks. The
// layouts are those of libefa's manual pages.
#pragma once

#include <infiniband/efadv.h>

#include <cstdint>

namespace verbena::softdev {

/// efadv_qp_init_attr, with the members that replaced its reserved bytes.
struct efa_qp_init_attr {
  std::uint64_t comp_mask;
  std::uint32_t driver_qp_type;
  std::uint16_t flags;
  std::uint8_t sl;
  std::uint8_t reserved;
};
static_assert(sizeof(efa_qp_init_attr) == sizeof(efadv_qp_init_attr));

inline constexpr std::uint32_t efa_caps_rdma_write = 1U << 3U;

/// efadv_mr_attr: the interconnects that reach a region.
struct efa_mr_attr {
  std::uint64_t comp_mask;
  std::uint16_t ic_id_validity;
  std::uint16_t recv_ic_id;
  std::uint16_t rdma_read_ic_id;
  std::uint16_t rdma_recv_ic_id;
};

/// efadv_sq_depth_attr and efadv_rq_depth_attr.
struct efa_sq_depth_attr {
  std::uint64_t comp_mask;
  std::uint32_t flags;
  std::uint32_t max_send_sge;
  std::uint32_t max_rdma_sge;
  std::uint32_t max_inline_data;
};
struct efa_rq_depth_attr {
  std::uint64_t comp_mask;
  std::uint32_t max_recv_sge;
};
inline constexpr std::uint32_t efa_sq_depth_inline_write = 1U << 0U;

}  // namespace verbena::softdev

// A newer efadv.h may declare these functions with types that are not known here, so their C++
// names differ.
extern "C" {
int efa_query_mr(ibv_mr* mr, void* attributes, std::uint32_t size) __asm__("efadv_query_mr");
int efa_query_qp_wqs(ibv_qp* qp, void* sends, void* receives,
                     std::uint32_t size) __asm__("efadv_query_qp_wqs");
int efa_query_cq(ibv_cq* cq, void* attributes, std::uint32_t size) __asm__("efadv_query_cq");
int efa_get_max_sq_depth(ibv_context* context, void* attributes,
                         std::uint32_t size) __asm__("efadv_get_max_sq_depth");
int efa_get_max_rq_depth(ibv_context* context, void* attributes,
                         std::uint32_t size) __asm__("efadv_get_max_rq_depth");
void* efa_qp_from_ibv_qp_ex(ibv_qp_ex* qp) __asm__("efadv_qp_from_ibv_qp_ex");
void* efa_create_comp_cntr(ibv_context* context, void* attributes, void* more,
                           std::uint32_t size) __asm__("efadv_create_comp_cntr");
}
