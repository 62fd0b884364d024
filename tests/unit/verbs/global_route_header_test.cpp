// SPDX-License-Identifier: MIT
#include "verbena/verbs/global_route_header.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace verbena {
namespace {

using header = global_route_header;
using form = header::form;

const gid ipv4_a = parse_gid("192.0.2.1").value();
const gid ipv4_b = parse_gid("198.51.100.2").value();
const gid ipv6_a = parse_gid("fe80::1").value();
const gid ipv6_b = parse_gid("2001:db8::2").value();

header some(std::mt19937& random, form version) {
  header made{.version = version,
              .source = ipv6_a,
              .destination = ipv6_b,
              .traffic_class = static_cast<std::uint8_t>(random()),
              .flow_label = static_cast<std::uint32_t>(random() & 0xf'ffff),
              .payload_length = static_cast<std::uint16_t>(random() % 65516),
              .next_header = static_cast<std::uint8_t>(random()),
              .hop_limit = static_cast<std::uint8_t>(random())};
  if (version == form::ipv6) return made;
  made.flow_label = 0;
  const auto random_ipv4 = [&random] {
    auto bytes = ipv4_a.bytes();
    for (std::size_t i = 12; i < 16; ++i) bytes[i] = static_cast<std::uint8_t>(random());
    return gid(bytes);
  };
  made.source = random_ipv4();
  made.destination = random_ipv4();
  return made;
}

// parity: ibverbs-tests-42, ibverbs-131
TEST(global_route_header, decodes_an_ipv4_header_of_a_network) {
  // Written by hand, with the checksum of RFC 1071.
  std::vector<std::byte> bytes(40, std::byte{0xa5});
  const std::array<std::uint8_t, 20> ipv4 = {0x45, 0x08, 0x00, 0x30, 0x12, 0x34, 0x40,
                                             0x00, 0x40, 0x11, 0x3c, 0x4a, 0xc0, 0x00,
                                             0x02, 0x01, 0xc6, 0x33, 0x64, 0x02};
  std::ranges::copy(std::as_bytes(std::span(ipv4)), bytes.begin() + 20);
  const auto read = header::decode(bytes).value();
  EXPECT_EQ(read.version, form::ipv4);
  EXPECT_EQ(read.source, ipv4_a);
  EXPECT_EQ(read.destination, ipv4_b);
  EXPECT_EQ(read.traffic_class, 8);
  EXPECT_EQ(read.payload_length, 0x30 - 20);
  EXPECT_EQ(read.next_header, 17);
  EXPECT_EQ(read.hop_limit, 64);
  EXPECT_EQ(to_string(read), "from ::ffff:192.0.2.1 to ::ffff:198.51.100.2, hop limit 64");
}

// parity: ibverbs-tests-42, ibverbs-130, rrddmma-81
TEST(global_route_header, both_forms_round_trip) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const header written = some(random, i % 2 == 0 ? form::ipv6 : form::ipv4);
    auto bytes = written.encode();
    // The bytes in front of an IPv4 header are undefined, and may look like an IPv6 header.
    if (written.version == form::ipv4) {
      for (std::size_t at = 0; at < 20; ++at) bytes[at] = static_cast<std::byte>(random());
      if (i % 4 == 1) bytes[0] = std::byte{0x60};
    }
    EXPECT_EQ(header::decode(bytes).value(), written) << i;
  }
}

TEST(global_route_header, decode_ignores_later_bytes) {
  std::mt19937 random(3);
  const header written = some(random, form::ipv6);
  const auto bytes = written.encode();
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.resize(100, std::byte{0x45});
  EXPECT_EQ(header::decode(longer).value(), written);
}

TEST(global_route_header, fewer_than_forty_bytes_are_refused) {
  const auto bytes = header{.source = ipv6_a, .destination = ipv6_b}.encode();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto refused = header::decode(std::span(bytes).first(length));
    ASSERT_FALSE(refused) << length;
    EXPECT_EQ(refused.error().kind(), error_kind::protocol);
  }
}

TEST(global_route_header, each_flipped_bit_of_an_ipv4_header_is_detected) {
  std::mt19937 random(4);
  auto bytes = some(random, form::ipv4).encode();
  bytes[0] = std::byte{0x60};
  ASSERT_EQ(header::decode(bytes).value().version, form::ipv4);
  for (std::size_t bit = 160; bit < 320; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_EQ(header::decode(flipped).value().version, form::ipv6) << "bit " << bit;
  }
}

TEST(global_route_header, each_flipped_bit_of_an_ipv6_header_changes_the_result) {
  std::mt19937 random(5);
  const header written = some(random, form::ipv6);
  const auto bytes = written.encode();
  for (std::size_t bit = 0; bit < 320; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto read = header::decode(flipped);
    if (read)
      EXPECT_NE(*read, written) << "bit " << bit;
    else
      EXPECT_EQ(read.error().kind(), error_kind::protocol) << "bit " << bit;
  }
}

TEST(global_route_header, headers_decoded_from_random_bytes_round_trip) {
  std::mt19937 random(6);
  std::array<std::size_t, 2> read_as{};
  for (int i = 0; i < 5000; ++i) {
    std::array<std::byte, header::encoded_size> bytes{};
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    if (i % 2 == 0) bytes[0] = static_cast<std::byte>(0x60U | (random() & 0xfU));
    if (i % 2 == 1) bytes[20] = static_cast<std::byte>(0x40U | (random() & 0xfU));
    const auto read = header::decode(bytes);
    const auto version_at = [&](std::size_t at) { return std::to_integer<int>(bytes[at]) >> 4; };
    ASSERT_TRUE(read || (version_at(0) != 6 && version_at(20) != 4)) << i;
    if (!read) continue;
    ++read_as[static_cast<std::size_t>(read->version)];
    EXPECT_EQ(header::decode(read->encode()).value(), *read) << i;
    if (read->version == form::ipv6) {
      EXPECT_EQ(read->encode(), bytes) << i;
    }
  }
  EXPECT_GT(std::ranges::min(read_as), 2000U);
}

TEST(global_route_header, bytes_of_neither_form_are_refused) {
  std::vector<std::byte> bytes(40);
  bytes[0] = std::byte{0x50};
  bytes[20] = std::byte{0x70};
  const auto refused = header::decode(bytes);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("their versions are 5 and 7"), std::string::npos)
      << refused.error().message();
}

TEST(global_route_header_death, ipv4_header_with_unmapped_address_stops_the_program) {
  const header wrong{.version = form::ipv4, .source = ipv6_a, .destination = ipv4_a};
  EXPECT_DEATH(static_cast<void>(wrong.encode()),
               "an address of an IPv4 header is not an IPv4-mapped GID");
  const header long_one{
      .version = form::ipv4, .source = ipv4_a, .destination = ipv4_b, .payload_length = 65516};
  EXPECT_DEATH(static_cast<void>(long_one.encode()),
               "the payload of an IPv4 header exceeds 65515 bytes");
}

}  // namespace
}  // namespace verbena
