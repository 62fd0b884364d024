// SPDX-License-Identifier: MIT
#include "verbena/verbs/address_vector.hpp"

#include <gtest/gtest.h>

#include <random>

namespace verbena {
namespace {

// Not all versions of the headers have these names.
static_assert(static_cast<int>(static_rate::gbps_800) == IBV_RATE_800_GBPS);
static_assert(static_cast<int>(static_rate::gbps_1200) == IBV_RATE_1200_GBPS);

const gid peer = parse_gid("::ffff:192.0.2.1").value();

// parity: ibverbs-126
TEST(address_vector, every_field_survives_conversion_to_native) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    address_vector way{.lid = lid(static_cast<std::uint16_t>(random())),
                       .port = port_number(static_cast<std::uint8_t>(random())),
                       .service_level = static_cast<std::uint8_t>(random() & 15),
                       .source_path_bits = static_cast<std::uint8_t>(random() & 127),
                       .rate = static_cast<static_rate>(random())};
    if (i % 2 == 0) {
      way.gid = peer;
      way.source_gid_index = gid_index(static_cast<std::uint8_t>(random()));
      way.traffic_class = static_cast<std::uint8_t>(random());
      way.hop_limit = static_cast<std::uint8_t>(random());
      way.flow_label = static_cast<std::uint32_t>(random() & 0xf'ffff);
    }
    const ibv_ah_attr native = detail::native_address(way);
    EXPECT_EQ(native.is_global, way.gid ? 1 : 0);
    EXPECT_EQ(native.grh.flow_label, way.flow_label);
    EXPECT_EQ(native.src_path_bits, way.source_path_bits);
    EXPECT_EQ(detail::from_native(native), way) << to_string(way);
  }
}

TEST(address_vector, fields_out_of_range_are_refused_with_their_range) {
  const auto fault = [](const address_vector& way) {
    const auto checked = detail::check_address(way, "call", "object");
    return checked ? std::string("none") : std::string(checked.error().diagnosis());
  };
  EXPECT_EQ(fault({}), "none");
  EXPECT_EQ(fault({.service_level = 16}), "service level 16 exceeds 15 (4 bits)");
  EXPECT_EQ(fault({.flow_label = 0x10'0000}), "flow label 0x100000 exceeds 0xfffff (20 bits)");
  EXPECT_EQ(fault({.source_path_bits = 128}), "source path bits 128 exceed 127 (7 bits)");
  EXPECT_EQ(fault({.port = port_number(0)}), "port 0 does not exist: ports count from 1");
  EXPECT_DEATH(static_cast<void>(detail::native_address({.flow_label = 0x10'0000})),
               "the flow label of an address_vector exceeds 0xfffff");
}

TEST(address_vector, to_string_omits_defaults) {
  EXPECT_EQ(to_string(address_vector{.lid = lid(0x12)}), "lid 0x12, port 1");
  EXPECT_EQ(to_string(address_vector{.gid = peer,
                                     .source_gid_index = gid_index(2),
                                     .port = port_number(3),
                                     .service_level = 4,
                                     .traffic_class = 5,
                                     .flow_label = 6,
                                     .source_path_bits = 7}),
            "gid ::ffff:192.0.2.1 by gid index 2, port 3, service level 4, traffic class 5, flow "
            "label 0x6, source path bits 7");
}

}  // namespace
}  // namespace verbena
