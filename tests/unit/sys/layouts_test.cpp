// SPDX-License-Identifier: MIT
#include "verbena/sys/layouts.hpp"

#include <gtest/gtest.h>
#include <infiniband/efadv.h>
#include <rdma/rdma_cma.h>

#include <cstddef>

namespace verbena::sys {
namespace {

#define VERBENA_SAME(ours, our_member, native, native_member) \
  static_assert(offsetof(ours, our_member) == offsetof(native, native_member))

static_assert(sizeof(gid_entry_layout) == sizeof(ibv_gid_entry));
VERBENA_SAME(gid_entry_layout, gid, ibv_gid_entry, gid);
VERBENA_SAME(gid_entry_layout, gid_index, ibv_gid_entry, gid_index);
VERBENA_SAME(gid_entry_layout, port_num, ibv_gid_entry, port_num);
VERBENA_SAME(gid_entry_layout, gid_type, ibv_gid_entry, gid_type);
VERBENA_SAME(gid_entry_layout, interface_index, ibv_gid_entry, ndev_ifindex);

static_assert(sizeof(ece_layout) == sizeof(ibv_ece));
VERBENA_SAME(ece_layout, vendor_id, ibv_ece, vendor_id);
VERBENA_SAME(ece_layout, options, ibv_ece, options);
VERBENA_SAME(ece_layout, comp_mask, ibv_ece, comp_mask);

static_assert(sizeof(efa_device_layout) == sizeof(efadv_device_attr));
VERBENA_SAME(efa_device_layout, max_sq_wr, efadv_device_attr, max_sq_wr);
VERBENA_SAME(efa_device_layout, max_rq_wr, efadv_device_attr, max_rq_wr);
VERBENA_SAME(efa_device_layout, max_sq_sge, efadv_device_attr, max_sq_sge);
VERBENA_SAME(efa_device_layout, max_rq_sge, efadv_device_attr, max_rq_sge);
VERBENA_SAME(efa_device_layout, inline_buf_size, efadv_device_attr, inline_buf_size);
VERBENA_SAME(efa_device_layout, device_caps, efadv_device_attr, device_caps);
VERBENA_SAME(efa_device_layout, max_rdma_size, efadv_device_attr, max_rdma_size);

static_assert(sizeof(efa_address_layout) == sizeof(efadv_ah_attr));
VERBENA_SAME(efa_address_layout, address_handle, efadv_ah_attr, ahn);

// Later versions extend these at the end.
static_assert(sizeof(efa_queue_pair_layout) <= sizeof(efadv_qp_init_attr));
VERBENA_SAME(efa_queue_pair_layout, type, efadv_qp_init_attr, driver_qp_type);
static_assert(sizeof(efa_completion_queue_request) <= sizeof(efadv_cq_init_attr));
VERBENA_SAME(efa_completion_queue_request, wc_flags, efadv_cq_init_attr, wc_flags);
static_assert(sizeof(efa_completion_queue_layout) <= sizeof(efadv_cq));
VERBENA_SAME(efa_completion_queue_layout, wc_read_sgid, efadv_cq, wc_read_sgid);

TEST(layouts, equal_those_of_the_headers) {
  EXPECT_EQ(EFADV_QP_DRIVER_TYPE_SRD, 0);
  EXPECT_EQ(EFADV_WC_EX_WITH_SGID, 1);
}

}  // namespace
}  // namespace verbena::sys
