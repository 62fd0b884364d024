// SPDX-License-Identifier: MIT
#include "verbena/base/guid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>

namespace verbena {
namespace {

// parity: ibverbs-tests-6, ibverbs-19
TEST(guid, to_string_prints_four_groups) {
  EXPECT_EQ(to_string(guid::from_number(0x0002c90300a07c8e)), "0002:c903:00a0:7c8e");
  EXPECT_EQ(to_string(guid()), "0000:0000:0000:0000");
}

// parity: ibverbs-rs-3, ibverbs-tests-5, ibverbs-15
TEST(guid, bytes_are_in_wire_order) {
  const std::array<std::uint8_t, 8> wire = {0x00, 0x02, 0xc9, 0x03, 0x00, 0xa0, 0x7c, 0x8e};
  std::uint64_t be64 = 0;
  std::memcpy(&be64, wire.data(), wire.size());
  EXPECT_EQ(guid::from_network_order(be64), guid(wire));
  EXPECT_EQ(guid(wire).bytes(), wire);
  EXPECT_EQ(guid(wire).number(), 0x0002c90300a07c8eU);
  EXPECT_EQ(guid(wire).oui(), 0x0002c9U);
}

// parity: ibverbs-17, ibverbs-rs-3
TEST(guid, zero_guid_is_reserved) {
  EXPECT_TRUE(guid().is_reserved());
  EXPECT_FALSE(guid::from_number(1).is_reserved());
  EXPECT_LT(guid::from_number(1), guid::from_number(0x100));
}

// parity: ibverbs-tests-10, ibverbs-61
TEST(gid, to_string_prints_an_ipv6_address) {
  EXPECT_EQ(to_string(parse_gid("fe80::1").value()), "fe80::1");
  EXPECT_EQ(to_string(parse_gid("192.0.2.1").value()), "::ffff:192.0.2.1");
  EXPECT_EQ(to_string(gid()), "::");
}

// parity: ibverbs-tests-11, ibverbs-59
TEST(gid, parse_gid_accepts_ipv6_and_maps_ipv4) {
  EXPECT_EQ(parse_gid("192.0.2.1"), parse_gid("::ffff:192.0.2.1"));
  EXPECT_EQ(parse_gid("fe80::1")->bytes()[0], 0xfe);
  for (const char* text : {"", "soft0", "192.0.2", "192.0.2.1.5", "fe80::1::2", "fe80::1%eth0"})
    EXPECT_FALSE(parse_gid(text).has_value()) << text;
}

TEST(gid, text_with_an_embedded_zero_is_refused) {
  using namespace std::string_literals;
  EXPECT_FALSE(parse_gid("fe80::1\0x"s));
  EXPECT_FALSE(parse_gid("192.0.2.1\0"s));
  EXPECT_FALSE(parse_gid("\0"s));
}

TEST(gid, random_text_is_refused_or_round_trips) {
  std::mt19937_64 random(20261121);
  constexpr std::string_view letters = "::::....0127fFx%\0";
  int addresses = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 12, ':');
    for (auto& letter : text) letter = letters[random() % (letters.size() + 1)];
    const auto parsed = parse_gid(text);
    if (!parsed) continue;
    ++addresses;
    EXPECT_EQ(parse_gid(to_string(*parsed)), parsed) << text;
  }
  EXPECT_GT(addresses, 50);
}

// parity: ibverbs-61, rrddmma-31, ibverbs-tests-10
TEST(gid, random_addresses_round_trip_through_text) {
  std::mt19937_64 random(20240611);
  for (int i = 0; i < 5000; ++i) {
    std::array<std::uint8_t, 16> bytes{};
    // Runs of zeros and mapped addresses have special forms in text.
    for (auto& byte : bytes) byte = random() % 3 == 0 ? std::uint8_t{0} : random() & 0xffU;
    if (i % 4 == 0) {
      std::fill_n(bytes.begin(), 10, std::uint8_t{0});
      bytes[10] = bytes[11] = 0xff;
    }
    EXPECT_EQ(parse_gid(to_string(gid(bytes))), gid(bytes)) << to_string(gid(bytes));
  }
}

// parity: ibverbs-16
TEST(guid, random_numbers_round_trip_through_network_order) {
  std::mt19937_64 random(20240612);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t number = random();
    const guid id = guid::from_number(number);
    EXPECT_EQ(id.number(), number);
    std::uint64_t be64 = 0;
    std::memcpy(&be64, id.bytes().data(), sizeof be64);
    EXPECT_EQ(guid::from_network_order(be64), id);
    EXPECT_EQ(id.oui(), number >> 40);
  }
}

// parity: ibverbs-tests-11, ibverbs-60, rrddmma-32
TEST(gid, kinds_of_addresses_are_distinguished) {
  EXPECT_TRUE(parse_gid("::ffff:192.0.2.1")->is_ipv4_mapped());
  EXPECT_FALSE(parse_gid("::192.0.2.1")->is_ipv4_mapped());
  EXPECT_FALSE(parse_gid("fe80::1")->is_ipv4_mapped());
  EXPECT_TRUE(parse_gid("fe80::1")->is_link_local());
  EXPECT_TRUE(parse_gid("febf::1")->is_link_local());
  EXPECT_FALSE(parse_gid("fec0::1")->is_link_local());
  EXPECT_FALSE(parse_gid("2001:db8::1")->is_link_local());
  EXPECT_TRUE(gid().is_zero());
  EXPECT_FALSE(parse_gid("::1")->is_zero());
}

// parity: ibverbs-tests-9, ibverbs-58
TEST(gid, subnet_prefix_and_interface_id_are_the_halves) {
  const auto id = parse_gid("fe80::1122:3344:5566:7788").value();
  EXPECT_EQ(id.subnet_prefix(), 0xfe80000000000000U);
  EXPECT_EQ(id.interface_id(), 0x1122334455667788U);
  const std::array<std::uint8_t, 16> bytes = {0xfe, 0x80, 0,    0,    0,    0,    0,    0,
                                              0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
  EXPECT_EQ(id.bytes(), bytes);
  EXPECT_EQ(gid(bytes), id);
}

// parity: ibverbs-18
TEST(guid, guid_is_a_key_of_unordered_map) {
  std::unordered_map<guid, int> numbers;
  numbers[guid::from_number(1)] = 1;
  numbers[guid::from_number(2)] = 2;
  numbers[guid::from_number(1)] = 3;
  EXPECT_EQ(numbers.size(), 2U);
  EXPECT_EQ(numbers.at(guid::from_number(1)), 3);
  EXPECT_EQ(numbers.count(guid()), 0U);
}

TEST(gid, gid_is_a_key_of_unordered_map) {
  std::unordered_map<gid, int> numbers;
  for (int i = 0; i < 256; ++i) numbers[parse_gid("fe80::" + std::to_string(i)).value()] = i;
  EXPECT_EQ(numbers.size(), 256U);
  EXPECT_EQ(numbers.at(parse_gid("fe80::17").value()), 17);
  EXPECT_EQ(numbers.count(gid()), 0U);
}

TEST(gid, hash_depends_on_both_halves) {
  const std::hash<gid> hash;
  const auto of = [&](const char* text) { return hash(parse_gid(text).value()); };
  EXPECT_NE(of("fe80::1"), of("2001:db8::1"));
  EXPECT_NE(of("fe80::1"), of("fe80::2"));
  EXPECT_NE(of("0:0:0:1::2"), of("0:0:0:2::1"));
}

}  // namespace
}  // namespace verbena
