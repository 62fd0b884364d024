// SPDX-License-Identifier: MIT
#include "verbena/verbs/port_capabilities.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "verbena/verbs/port_attributes.hpp"

namespace verbena {
namespace {

// Not all versions of the headers have this name.
static_assert(static_cast<int>(port_capability2::link_speed_ndr_sup) ==
              IBV_PORT_LINK_SPEED_NDR_SUP);

TEST(port_capability, prints_the_names_of_verbs_h_and_unknown_bits) {
  EXPECT_EQ(to_string(flags<port_capability>()), "none");
  EXPECT_EQ(to_string(flags<port_capability>::from_mask(IBV_PORT_SM | IBV_PORT_IP_BASED_GIDS | 1)),
            "sm | ip_based_gids | 0x1");
  EXPECT_EQ(to_string(flags<port_capability2>::from_mask(IBV_PORT_VIRT_SUP | 1U << 12)),
            "virt_sup | link_speed_xdr_sup");
  EXPECT_EQ(to_string(flags<port_flag>::from_mask(3)), "grh_required | 0x2");
}

TEST(port_attributes, have_the_values_of_subnet_management) {
  ibv_port_attr native{};
  native.lmc = 2;
  native.sm_lid = 3;
  native.sm_sl = 4;
  native.max_vl_num = 5;
  native.port_cap_flags = IBV_PORT_CM_SUP;
  native.port_cap_flags2 = IBV_PORT_INFO_EXT_SUP;
  native.flags = 1;
  native.bad_pkey_cntr = 6;
  native.qkey_viol_cntr = 7;
  const port_attributes port(port_number(1), native);
  EXPECT_EQ(port.lid_mask_bits(), 2);
  EXPECT_EQ(port.subnet_manager_lid(), lid(3));
  EXPECT_EQ(port.subnet_manager_service_level(), 4);
  EXPECT_EQ(port.virtual_lanes(), 15U);
  EXPECT_EQ(port.capabilities(), flags(port_capability::cm_sup));
  EXPECT_EQ(port.more_capabilities(), flags(port_capability2::info_ext_sup));
  EXPECT_EQ(port.port_flags(), flags(port_flag::grh_required));
  EXPECT_EQ(port.bad_pkey_count(), 6U);
  EXPECT_EQ(port.bad_qkey_count(), 7U);
}

TEST(port_attributes, virtual_lanes_of_unknown_value_are_nullopt) {
  ibv_port_attr native{};
  EXPECT_EQ(port_attributes(port_number(1), native).virtual_lanes(), std::nullopt);
  native.max_vl_num = 6;
  EXPECT_EQ(port_attributes(port_number(1), native).virtual_lanes(), std::nullopt);
  native.max_vl_num = 4;
  EXPECT_EQ(port_attributes(port_number(1), native).virtual_lanes(), 8U);
}

}  // namespace
}  // namespace verbena
