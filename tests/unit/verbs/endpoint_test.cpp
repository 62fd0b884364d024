// SPDX-License-Identifier: MIT
#include "verbena/verbs/endpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <unordered_map>
#include <vector>

namespace verbena {
namespace {

endpoint sample_endpoint() {
  return {.queue_pair = queue_pair_number(0x12'3456),
          .first_psn = packet_sequence_number(0xab'cdef),
          .lid = lid(0x0102),
          .gid = parse_gid("::ffff:192.0.2.1"),
          .mtu = mtu::bytes_2048,
          .responder_resources = 16};
}

// parity: ibverbs-tests-1
TEST(endpoint, round_trips) {
  const auto decoded = endpoint::decode(sample_endpoint().encode());
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(*decoded, sample_endpoint());
}

endpoint without_gid() {
  endpoint of = sample_endpoint();
  of.gid.reset();
  return of;
}

TEST(endpoint, round_trips_without_gid) {
  EXPECT_EQ(endpoint::decode(without_gid().encode()).value(), without_gid());
}

// parity: ibverbs-tests-2, ibverbs-194
TEST(endpoint, random_endpoints_round_trip) {
  std::mt19937 random(20261121);
  for (int i = 0; i < 2000; ++i) {
    endpoint of{.queue_pair = queue_pair_number(random() & queue_pair_number::max),
                .first_psn = packet_sequence_number(random() & packet_sequence_number::max),
                .lid = lid(static_cast<std::uint16_t>(random())),
                .mtu = static_cast<mtu>(1 + random() % 5),
                .responder_resources = static_cast<std::uint8_t>(random())};
    std::array<std::uint8_t, 16> address{};
    for (auto& byte : address) byte = static_cast<std::uint8_t>(random());
    if (i % 3 != 0) of.gid = gid(address);
    EXPECT_EQ(endpoint::decode(of.encode()).value(), of) << to_string(of);
  }
}

// parity: ibverbs-191, ibverbs-192, rrddmma-70
TEST(endpoint, wire_format_is_fixed) {
  const std::array<std::uint8_t, endpoint::encoded_size> expected = {
      1, 1, 4, 16, 0, 0x12, 0x34, 0x56, 0, 0xab, 0xcd, 0xef, 1, 2,    0,
      0, 0, 0, 0,  0, 0,    0,    0,    0, 0xff, 0xff, 192,  0, 0x02, 1};
  static_assert(endpoint::encoded_size == 30);
  static_assert(endpoint::encoded_size <= 56, "the private data of a connection request");
  const auto bytes = sample_endpoint().encode();
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(expected)), bytes));
}

// Decodes the sample with one byte changed and returns the message of the refusal.
std::string refusal(std::size_t index, std::uint8_t value) {
  auto bytes = sample_endpoint().encode();
  bytes[index] = std::byte{value};
  const auto decoded = endpoint::decode(bytes);
  if (decoded) return "accepted";
  EXPECT_EQ(decoded.error().kind(), error_kind::protocol);
  return decoded.error().message();
}

// parity: ibverbs-tests-3, ibverbs-193, rrddmma-70
TEST(endpoint, decode_refuses_unknown_version_and_flags) {
  EXPECT_NE(refusal(0, 2).find("version 2"), std::string::npos);
  EXPECT_NE(refusal(0, 0).find("version 0"), std::string::npos);
  EXPECT_NE(refusal(1, 3).find("flags 0x3"), std::string::npos);
  EXPECT_NE(refusal(1, 0x81).find("flags 0x81"), std::string::npos);
  EXPECT_NE(refusal(1, 0).find("GID"), std::string::npos);
  EXPECT_NE(refusal(2, 0).find("MTU code 0"), std::string::npos);
  EXPECT_NE(refusal(2, 6).find("MTU code 6"), std::string::npos);
  EXPECT_NE(refusal(4, 1).find("24 bits"), std::string::npos);
  EXPECT_NE(refusal(8, 1).find("24 bits"), std::string::npos);
}

TEST(endpoint, decode_refuses_every_other_size) {
  const auto bytes = sample_endpoint().encode();
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  for (std::size_t size = 0; size <= longer.size(); ++size) {
    const bool accepted = endpoint::decode(std::span(longer).first(size)).has_value();
    EXPECT_EQ(accepted, size == endpoint::encoded_size) << size;
  }
}

TEST(endpoint, every_single_byte_is_decoded_or_refused) {
  for (const endpoint& of : {sample_endpoint(), without_gid()})
    for (std::size_t index = 0; index < endpoint::encoded_size; ++index)
      for (int value = 0; value < 256; ++value) {
        auto bytes = of.encode();
        bytes[index] = static_cast<std::byte>(value);
        const auto decoded = endpoint::decode(bytes);
        EXPECT_TRUE(!decoded || decoded->encode() == bytes) << index << ' ' << value;
      }
}

TEST(endpoint, can_be_a_key_of_a_hash_map) {
  const std::unordered_map<endpoint, int> map{{sample_endpoint(), 1}, {endpoint(), 2}};
  EXPECT_EQ(map.at(sample_endpoint()), 1);
  EXPECT_EQ(map.at(endpoint()), 2);
}

TEST(endpoint, to_string_has_all_fields) {
  EXPECT_EQ(to_string(sample_endpoint()),
            "queue pair 0x123456, psn 0xabcdef, lid 0x102, gid ::ffff:192.0.2.1, mtu 2048, read "
            "depth 16");
}

}  // namespace
}  // namespace verbena
