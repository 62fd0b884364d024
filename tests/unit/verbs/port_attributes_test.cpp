// SPDX-License-Identifier: MIT
#include "verbena/verbs/port_attributes.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace verbena {
namespace {

ibv_port_attr native_port() {
  ibv_port_attr native{};
  native.state = IBV_PORT_ACTIVE;
  native.max_mtu = IBV_MTU_4096;
  native.active_mtu = IBV_MTU_1024;
  native.gid_tbl_len = 16;
  native.max_msg_sz = 1U << 31;
  native.pkey_tbl_len = 2;
  native.lid = 0x17;
  native.active_width = 2;
  native.active_speed = 32;
  native.phys_state = 5;
  native.link_layer = IBV_LINK_LAYER_INFINIBAND;
  return native;
}

// parity: ibverbs-41, ibverbs-43, rrddmma-20, rrddmma-22
TEST(port_attributes, are_typed) {
  const port_attributes port(port_number(2), native_port());
  EXPECT_EQ(port.number(), port_number(2));
  EXPECT_EQ(port.state(), port_state::active);
  EXPECT_EQ(port.max_mtu(), mtu::bytes_4096);
  EXPECT_EQ(port.active_mtu(), mtu::bytes_1024);
  EXPECT_EQ(port.link_layer(), link_layer::infiniband);
  EXPECT_EQ(port.phys_state(), physical_state::link_up);
  EXPECT_EQ(port.active_width(), link_width::x4);
  EXPECT_EQ(port.active_speed(), link_speed::edr);
  EXPECT_EQ(port.data_gbps(), 100.0);
  EXPECT_EQ(port.lid(), lid(0x17));
  EXPECT_EQ(port.gid_table_length(), 16U);
  EXPECT_EQ(port.pkey_table_length(), 2);
  EXPECT_EQ(port.max_message_bytes(), 1U << 31);
  static_assert(std::is_same_v<decltype(port.native()), const ibv_port_attr&>);
  EXPECT_EQ(port.native().active_speed, 32);
}

// parity: ibverbs-tests-15
TEST(port_attributes, print_in_one_line) {
  EXPECT_EQ(to_string(port_attributes(port_number(2), native_port())),
            "port 2: active, InfiniBand, link up, MTU 1024 (max 4096), 4x EDR, LID 23, 16 GIDs");
}

// parity: ibverbs-42, rrddmma-21
TEST(port_attributes, unknown_values_are_kept_and_print) {
  auto native = native_port();
  native.state = static_cast<ibv_port_state>(7);
  native.active_mtu = static_cast<ibv_mtu>(9);
  native.active_width = 3;
  native.active_speed = 77;
  native.phys_state = 12;
  native.link_layer = 8;
  native.gid_tbl_len = -1;
  native.lid = 0;
  const port_attributes port(port_number(1), native);
  EXPECT_EQ(static_cast<int>(port.state()), 7);
  EXPECT_EQ(port.data_gbps(), std::nullopt);
  EXPECT_EQ(to_string(port),
            "port 1: unknown (7), unknown (8), unknown (12), MTU unknown (9) (max 4096), "
            "unknown (3) unknown (77), 0 GIDs");
}

// parity: ibverbs-tests-37, ibverbs-46
TEST(port_enumerations, every_value_has_a_name) {
  const auto names = [](auto first, auto last) {
    std::string text;
    for (int i = static_cast<int>(first); i <= static_cast<int>(last); ++i)
      text += to_string(static_cast<decltype(first)>(i)) + ";";
    return text;
  };
  EXPECT_EQ(names(port_state::no_change, port_state::active_defer),
            "no change;down;initialize;armed;active;active (defer);");
  EXPECT_EQ(names(link_layer::unspecified, link_layer::ethernet),
            "unspecified;InfiniBand;Ethernet;");
  EXPECT_EQ(names(physical_state::sleep, physical_state::phy_test),
            "sleep;polling;disabled;configuration training;link up;link error recovery;phy test;");
  EXPECT_EQ(names(mtu::bytes_256, mtu::bytes_4096), "256;512;1024;2048;4096;");
}

// parity: ibverbs-tests-36, ibverbs-47, rrddmma-23
TEST(mtu, counts_bytes) {
  std::uint32_t bytes = 256;
  for (const mtu each :
       {mtu::bytes_256, mtu::bytes_512, mtu::bytes_1024, mtu::bytes_2048, mtu::bytes_4096}) {
    EXPECT_EQ(byte_count(each), bytes);
    EXPECT_EQ(to_string(each), std::to_string(bytes));
    bytes *= 2;
  }
  EXPECT_EQ(byte_count(static_cast<mtu>(0)), 0U);
  EXPECT_EQ(byte_count(static_cast<mtu>(6)), 0U);
  EXPECT_EQ(to_string(static_cast<mtu>(6)), "unknown (6)");
}

// parity: ibverbs-44, rrddmma-22
TEST(link_speed, every_value_has_a_name_and_a_rate) {
  std::string names;
  std::vector<double> rates;
  for (unsigned bit = 1; bit <= 256; bit <<= 1) {
    const auto speed = static_cast<link_speed>(bit);
    names += to_string(speed) + " ";
    rates.push_back(lane_gbps(speed).value());
  }
  EXPECT_EQ(names, "SDR DDR QDR FDR10 FDR EDR HDR NDR XDR ");
  EXPECT_EQ(rates, (std::vector<double>{2, 4, 8, 10, 13.64, 25, 50, 100, 200}));
  EXPECT_EQ(lane_gbps(static_cast<link_speed>(3)), std::nullopt);
  EXPECT_EQ(to_string(static_cast<link_speed>(512)), "unknown (512)");
}

// parity: ibverbs-45, rrddmma-22
TEST(link_width, every_value_has_a_name_and_lanes) {
  std::string names;
  for (unsigned bit = 1; bit <= 16; bit <<= 1) {
    const auto width = static_cast<link_width>(bit);
    names += to_string(width) + " ";
    EXPECT_EQ(to_string(width), std::to_string(lanes(width).value()) + "x");
  }
  EXPECT_EQ(names, "1x 4x 8x 12x 2x ");
  EXPECT_EQ(lanes(static_cast<link_width>(3)), std::nullopt);
  EXPECT_EQ(to_string(static_cast<link_width>(32)), "unknown (32)");
}

}  // namespace
}  // namespace verbena
