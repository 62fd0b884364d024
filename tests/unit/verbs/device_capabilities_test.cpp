// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_capabilities.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "verbena/verbs/device_attributes.hpp"

namespace verbena {
namespace {

TEST(device_capability, prints_the_names_of_verbs_h_and_unknown_bits) {
  EXPECT_EQ(to_string(flags<device_capability>()), "none");
  const auto set =
      flags<device_capability>::from_mask(IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW | 1U << 15);
  EXPECT_EQ(to_string(set), "mem_window | xrc | 0x8000");
  EXPECT_EQ(to_string(device_capability::flush_global | device_capability::atomic_write),
            "flush_global | atomic_write");
}

TEST(device_capability, has_every_bit_that_verbs_h_names) {
  constexpr std::uint64_t named =
      IBV_DEVICE_RESIZE_MAX_WR | IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
      IBV_DEVICE_RAW_MULTI | IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CHANGE_PHY_PORT |
      IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SHUTDOWN_PORT |
      IBV_DEVICE_INIT_TYPE | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_N_NOTIFY_CQ |
      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_XRC |
      IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2A |
      IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_RC_IP_CSUM | IBV_DEVICE_RAW_IP_CSUM |
      IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_SCATTER_FCS |
      IBV_DEVICE_PCI_WRITE_END_PADDING;
  const std::string text = to_string(flags<device_capability>::from_mask(named));
  EXPECT_EQ(text.find("0x"), std::string::npos) << text;
}

TEST(capability_sets, print_the_names_of_their_bits) {
  EXPECT_EQ(to_string(flags<on_demand_operation>::from_mask(IBV_ODP_SUPPORT_SRQ_RECV | 1U << 9)),
            "srq_recv | 0x200");
  EXPECT_EQ(to_string(flags<on_demand_capability>::from_mask(3)), "support | implicit");
  EXPECT_EQ(to_string(flags<raw_packet_capability>::from_mask(IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
                                                              IBV_RAW_PACKET_CAP_DELAY_DROP)),
            "cvlan_stripping | delay_drop");
  EXPECT_EQ(to_string(flags<receive_hash_field>::from_mask(IBV_RX_HASH_INNER | 1U)),
            "src_ipv4 | inner");
  EXPECT_EQ(to_string(flags<receive_hash_function>::from_mask(3)), "toeplitz | 0x2");
  EXPECT_EQ(
      to_string(flags<queue_pair_kind>::from_mask(1U << IBV_QPT_UD | 1U << IBV_QPT_RAW_PACKET)),
      "ud | raw_packet");
  EXPECT_EQ(to_string(flags<atomic_size>::from_mask(7)), "bytes_4 | bytes_8 | bytes_16");
  EXPECT_EQ(to_string(flags<tag_matching_capability>::from_mask(IBV_TM_CAP_RC)), "rc");
}

TEST(extended_device_attributes, merge_the_capabilities_of_both_queries) {
  ibv_device_attr_ex native{};
  native.orig_attr.device_cap_flags = IBV_DEVICE_XRC;
  native.device_cap_flags_ex = IBV_DEVICE_PCI_WRITE_END_PADDING;
  const extended_device_attributes device(native);
  EXPECT_EQ(device.capabilities(),
            device_capability::xrc | device_capability::pci_write_end_padding);
  EXPECT_EQ(device.basic().capabilities(), flags(device_capability::xrc));
}

// parity: ibverbs-37
TEST(extended_device_attributes, have_the_operations_of_each_transport) {
  ibv_device_attr_ex native{};
  native.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  native.odp_caps.per_transport_caps = {
      .rc_odp_caps = IBV_ODP_SUPPORT_SEND, .uc_odp_caps = 2, .ud_odp_caps = 4};
  native.xrc_odp_caps = IBV_ODP_SUPPORT_READ;
  native.raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM;
  native.pci_atomic_caps = {.fetch_add = 1, .swap = 2, .compare_swap = 4};
  const extended_device_attributes device(native);
  EXPECT_TRUE(device.has_on_demand_paging());
  EXPECT_EQ(to_string(device.on_demand()), "support | implicit");
  EXPECT_EQ(to_string(device.on_demand_rc()), "send");
  EXPECT_EQ(to_string(device.on_demand_uc()), "recv");
  EXPECT_EQ(to_string(device.on_demand_ud()), "write");
  EXPECT_EQ(to_string(device.on_demand_xrc()), "read");
  EXPECT_EQ(to_string(device.raw_packet_capabilities()), "ip_csum");
  EXPECT_EQ(to_string(device.pci_fetch_add()), "bytes_4");
  EXPECT_EQ(to_string(device.pci_swap()), "bytes_8");
  EXPECT_EQ(to_string(device.pci_compare_swap()), "bytes_16");
}

TEST(device_attributes, have_the_limits_of_windows_groups_and_shared_queues) {
  ibv_device_attr native{};
  native.max_sge_rd = 1;
  native.max_res_rd_atom = 2;
  native.page_size_cap = 0x1000;
  native.max_mw = 3;
  native.max_ah = 4;
  native.max_srq = 5;
  native.max_srq_wr = 6;
  native.max_srq_sge = 7;
  native.max_mcast_grp = 8;
  native.max_mcast_qp_attach = 9;
  native.max_total_mcast_qp_attach = 10;
  native.max_pkeys = 11;
  native.local_ca_ack_delay = 15;
  const device_attributes device(native);
  EXPECT_EQ(device.max_read_sge(), 1);
  EXPECT_EQ(device.max_total_responder_resources(), 2);
  EXPECT_EQ(device.page_sizes(), 0x1000U);
  EXPECT_EQ(device.max_memory_windows(), 3);
  EXPECT_EQ(device.max_address_handles(), 4);
  EXPECT_EQ(device.max_shared_receive_queues(), 5);
  EXPECT_EQ(device.max_shared_receives(), 6);
  EXPECT_EQ(device.max_srq_sge(), 7);
  EXPECT_EQ(device.max_multicast_groups(), 8);
  EXPECT_EQ(device.max_group_members(), 9);
  EXPECT_EQ(device.max_members_of_all_groups(), 10);
  EXPECT_EQ(device.max_pkeys(), 11);
  EXPECT_EQ(device.ack_delay(), std::chrono::nanoseconds(4096) * 32768);
}

}  // namespace
}  // namespace verbena
