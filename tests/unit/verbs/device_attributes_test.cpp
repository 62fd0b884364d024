// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_attributes.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <type_traits>

#include "verbena/base/bytes.hpp"

namespace verbena {
namespace {

// port_count() reads this member at its offset, because not all versions of the headers have it.
static_assert(offsetof(ibv_device_attr_ex, phys_port_cnt_ex) == 396);

ibv_device_attr native_device() {
  ibv_device_attr native{};
  std::strcpy(native.fw_ver, "16.35.2000");
  native.node_guid = network_order(std::uint64_t{0x0002c90300a07c8e});
  native.sys_image_guid = network_order(std::uint64_t{0x0002c90300a07c8f});
  native.max_mr_size = ~std::uint64_t{0};
  native.vendor_id = 0x02c9;
  native.vendor_part_id = 4119;
  native.max_qp = 100;
  native.max_qp_wr = 200;
  native.max_sge = 30;
  native.max_cq = 300;
  native.max_cqe = 400;
  native.max_mr = 500;
  native.max_pd = 600;
  native.max_qp_rd_atom = 16;
  native.max_qp_init_rd_atom = 8;
  native.atomic_cap = IBV_ATOMIC_HCA;
  native.phys_port_cnt = 2;
  return native;
}

// parity: ibverbs-31, ibverbs-32, rrddmma-24
TEST(device_attributes, are_typed) {
  const device_attributes device(native_device());
  EXPECT_EQ(to_string(device.node_guid()), "0002:c903:00a0:7c8e");
  EXPECT_EQ(to_string(device.system_image_guid()), "0002:c903:00a0:7c8f");
  EXPECT_EQ(device.firmware_version(), "16.35.2000");
  EXPECT_EQ(device.vendor_id(), 0x02c9U);
  EXPECT_EQ(device.vendor_part_id(), 4119U);
  EXPECT_EQ(device.port_count(), 2);
  EXPECT_EQ(device.max_queue_pairs(), 100);
  EXPECT_EQ(device.max_work_requests(), 200);
  EXPECT_EQ(device.max_sge(), 30);
  EXPECT_EQ(device.max_completion_queues(), 300);
  EXPECT_EQ(device.max_completions(), 400);
  EXPECT_EQ(device.max_memory_regions(), 500);
  EXPECT_EQ(device.max_protection_domains(), 600);
  EXPECT_EQ(device.max_memory_region_bytes(), ~std::uint64_t{0});
  EXPECT_EQ(device.max_responder_resources(), 16);
  EXPECT_EQ(device.max_initiator_depth(), 8);
  EXPECT_EQ(device.atomics(), atomic_scope::device);
  static_assert(std::is_same_v<decltype(device.native()), const ibv_device_attr&>);
  EXPECT_EQ(device.native().max_qp, 100);
}

// parity: ibverbs-33
TEST(device_attributes, firmware_version_is_bounded_and_printable) {
  auto native = native_device();
  std::memset(native.fw_ver, 'x', sizeof native.fw_ver);
  EXPECT_EQ(device_attributes(native).firmware_version(), std::string(64, 'x'));
  std::strcpy(native.fw_ver, "1.\x1b[2J\xff");
  EXPECT_EQ(device_attributes(native).firmware_version(), "1.?[2J?");
}

// parity: ibverbs-34
TEST(device_attributes, print_one_limit_a_line) {
  const std::string text = to_string(device_attributes(native_device()));
  EXPECT_EQ(text.substr(0, text.find('\n')), "node GUID: 0002:c903:00a0:7c8e");
  for (const char* line :
       {"\nsystem image GUID: 0002:c903:00a0:7c8f\n", "\nvendor: 0x2c9\n", "\nports: 2\n",
        "\nmax queue pairs: 100\n", "\nmax reads as target: 16\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
  EXPECT_TRUE(text.ends_with("\natomics: device")) << text;
}

TEST(atomic_scope, unknown_values_are_kept_and_print) {
  EXPECT_EQ(to_string(atomic_scope::none), "none");
  EXPECT_EQ(to_string(atomic_scope::global), "global");
  auto native = native_device();
  native.atomic_cap = static_cast<ibv_atomic_cap>(7);
  EXPECT_EQ(to_string(device_attributes(native).atomics()), "unknown (7)");
}

// parity: ibverbs-tests-16, ibverbs-36, ibverbs-37
TEST(extended_device_attributes, include_the_basic_attributes) {
  ibv_device_attr_ex native{};
  native.orig_attr = native_device();
  native.completion_timestamp_mask = 0xffff;
  native.hca_core_clock = 1000000;
  native.max_dm_size = 4096;
  native.odp_caps.general_caps = IBV_ODP_SUPPORT;
  const extended_device_attributes device(native);
  EXPECT_EQ(device.basic().max_queue_pairs(), 100);
  EXPECT_EQ(device.completion_timestamp_mask(), 0xffffU);
  EXPECT_EQ(device.clock_khz(), 1000000U);
  EXPECT_EQ(device.device_memory_bytes(), 4096U);
  EXPECT_TRUE(device.has_on_demand_paging());
  EXPECT_EQ(device.port_count(), 2U) << "an old provider sets only the short field";
  const std::string text = to_string(device);
  EXPECT_NE(text.find("max queue pairs: 100\n"), std::string::npos);
  EXPECT_TRUE(
      text.ends_with("completion timestamp mask: 0xffff\nclock kHz: 1000000\n"
                     "on-demand paging: yes\ndevice memory bytes: 4096"))
      << text;
  native.packet_pacing_caps = {
      .qp_rate_limit_min = 1, .qp_rate_limit_max = 100'000, .supported_qpts = 1U << IBV_QPT_UD};
  native.tso_caps = {.max_tso = 65'536, .supported_qpts = 1U << IBV_QPT_RAW_PACKET};
  native.cq_mod_caps = {.max_cq_count = 16, .max_cq_period = 2000};
  native.pci_atomic_caps = {.fetch_add = 2, .swap = 0, .compare_swap = 6};
  native.raw_packet_caps = IBV_RAW_PACKET_CAP_SCATTER_FCS;
  native.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
  native.odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND;
  native.xrc_odp_caps = IBV_ODP_SUPPORT_SRQ_RECV;
  const extended_device_attributes able(native);
  EXPECT_EQ(able.packet_pacing().min_kbps, 1U);
  EXPECT_EQ(able.packet_pacing().max_kbps, 100'000U);
  EXPECT_EQ(to_string(able.packet_pacing().queue_pairs), "ud");
  EXPECT_EQ(able.max_tso_bytes(), 65'536U);
  EXPECT_EQ(to_string(able.tso_queue_pairs()), "raw_packet");
  EXPECT_EQ(able.max_moderation().completions, 16);
  EXPECT_EQ(able.max_moderation().period, std::chrono::milliseconds(2));
  EXPECT_EQ(to_string(able.pci_fetch_add()), "bytes_8");
  EXPECT_TRUE(able.pci_swap().empty());
  EXPECT_EQ(to_string(able.pci_compare_swap()), "bytes_8 | bytes_16");
  EXPECT_EQ(to_string(able.raw_packet_capabilities()), "scatter_fcs");
  EXPECT_EQ(to_string(able.on_demand_rc()), "write | read");
  EXPECT_TRUE(able.on_demand_uc().empty());
  EXPECT_EQ(to_string(able.on_demand_ud()), "send");
  EXPECT_EQ(to_string(able.on_demand_xrc()), "srq_recv");
  native.phys_port_cnt_ex = 300;
  EXPECT_EQ(extended_device_attributes(native).port_count(), 300U);
}

}  // namespace
}  // namespace verbena
