// SPDX-License-Identifier: MIT
#include "verbena/verbs/remote_region.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <unordered_map>
#include <vector>

namespace verbena {
namespace {

const remote_region sample_region({.address = 0x0102030405060708,
                                   .length = 0x1112131415161718,
                                   .key = remote_key(0x21222324)});

void expect_refused(std::span<const std::byte> bytes, const std::string& words) {
  const auto decoded = remote_region::decode(bytes);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().kind(), error_kind::protocol);
  EXPECT_NE(decoded.error().message().find(words), std::string::npos) << decoded.error().message();
}

// parity: ibverbs-160
TEST(remote_region, wire_format_is_version_address_length_key_in_network_order) {
  const std::array<std::uint8_t, 21> expected = {1,    1,    2,    3,    4,    5,    6,
                                                 7,    8,    0x11, 0x12, 0x13, 0x14, 0x15,
                                                 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24};
  const auto bytes = sample_region.encode();
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << "byte " << i;
}

// parity: ibverbs-tests-4, rrddmma-49
TEST(remote_region, round_trips) {
  EXPECT_EQ(remote_region::decode(sample_region.encode()).value(), sample_region);
  EXPECT_EQ(remote_region::decode(remote_region().encode()).value(), remote_region());
}

// parity: ibverbs-161
TEST(remote_region, truncated_and_longer_bytes_are_refused) {
  auto bytes = sample_region.encode();
  expect_refused({}, "the description is empty");
  for (std::size_t size = 1; size < bytes.size(); ++size)
    expect_refused(std::span(bytes).first(size), "version 1 has 21");
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  expect_refused(longer, "the description has 22 bytes");
}

// parity: ibverbs-161
TEST(remote_region, unknown_versions_are_refused) {
  auto bytes = sample_region.encode();
  for (const int version : {0, 2, 255}) {
    bytes[0] = std::byte(version);
    expect_refused(bytes, "version " + std::to_string(version) + ", this library reads version 1");
  }
}

// parity: ibverbs-161
TEST(remote_region, decode_refuses_an_end_beyond_the_address_space) {
  auto bytes = sample_region.encode();
  for (std::size_t i = 1; i < 9; ++i) bytes[i] = std::byte{0xff};
  expect_refused(bytes, "exceeds the 64-bit address space");
}

TEST(remote_region, flipped_bits_are_decoded_as_another_region_or_refused) {
  for (std::size_t bit = 0; bit < remote_region::encoded_size * 8; ++bit) {
    auto flipped = sample_region.encode();
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto decoded = remote_region::decode(flipped);
    EXPECT_EQ(decoded.has_value(), bit >= 8) << "only the version is wrong: bit " << bit;
    EXPECT_TRUE(!decoded || (decoded->encode() == flipped && *decoded != sample_region)) << bit;
  }
}

TEST(remote_region, random_bytes_never_decode_to_an_overflowing_region) {
  std::mt19937_64 random(20240607);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes(random() % 30);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    if (!bytes.empty() && i % 2 == 0) bytes[0] = std::byte{1};
    const auto decoded = remote_region::decode(bytes);
    if (decoded) {
      EXPECT_LE(decoded->length(), ~decoded->address());
    }
  }
}

// parity: ibverbs-156, rrddmma-49, ibverbs-157
TEST(remote_region, slices_are_inside_the_region_and_may_be_empty) {
  const remote_region region({.address = 1000, .length = 100, .key = remote_key(3)});
  EXPECT_EQ(region.slice(10, 20),
            remote_region({.address = 1010, .length = 20, .key = remote_key(3)}));
  EXPECT_EQ(region.slice(40).length(), 60U);
  EXPECT_EQ(region.slice(100).length(), 0U);
  EXPECT_EQ(region.slice(100, 0).address(), 1100U);
  EXPECT_EQ(region.slice(10, 20).slice(5).address(), 1015U);
}

TEST(remote_region, element_counts_in_elements) {
  const remote_region region({.address = 1000, .length = 100, .key = remote_key(3)});
  EXPECT_EQ(region.element<std::uint64_t>(2), region.slice(16, 8));
  EXPECT_EQ(region.element<std::uint16_t>(1, 3), region.slice(2, 6));
}

// Offsets may come from a peer: try_slice() never stops the program.
// parity: ibverbs-rs-61
TEST(remote_region, try_slice_reports_the_range_and_the_length) {
  const remote_region region({.address = 1000, .length = 100, .key = remote_key(3)});
  EXPECT_EQ(region.try_slice(10, 20).value(), region.slice(10, 20));
  EXPECT_EQ(region.try_slice(100, 0).value().length(), 0U);
  const auto refused = region.try_slice(90, 20);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
  EXPECT_EQ(refused.error().diagnosis(), "slice [90, 110) exceeds the remote region of 100 bytes");
  EXPECT_FALSE(region.try_element<std::uint64_t>(~std::uint64_t{0} / 4).has_value());
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t offset = random() >> (random() % 64);
    const std::uint64_t length = random() >> (random() % 64);
    const auto part = region.try_slice(offset, length);
    EXPECT_EQ(part.has_value(),
              offset <= 100 && length <= 100 - std::min(offset, std::uint64_t{100}));
  }
}

TEST(remote_region, try_make_refuses_an_end_beyond_the_address_space) {
  EXPECT_EQ(remote_region::try_make({.address = 1, .length = 2, .key = remote_key(3)}).value(),
            remote_region({.address = 1, .length = 2, .key = remote_key(3)}));
  const auto refused =
      remote_region::try_make({.address = ~std::uint64_t{0}, .length = 1, .key = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), error_kind::protocol);
}

TEST(remote_region, can_be_a_key_of_a_hash_map) {
  const std::unordered_map<remote_region, int> map{{sample_region, 1}, {remote_region(), 2}};
  EXPECT_EQ(map.at(sample_region), 1);
  EXPECT_EQ(map.at(remote_region()), 2);
}

TEST(remote_region, prints_address_length_and_key) {
  EXPECT_EQ(to_string(remote_region({.address = 0x7f00, .length = 4096, .key = remote_key(0x1a)})),
            "0x7f00+4096 (rkey 0x1a)");
}

TEST(remote_region_death, slice_outside_aborts) {
  const remote_region region({.address = 1000, .length = 100, .key = remote_key(3)});
  const char* rule = "exceeds the remote region of 100 bytes";
  EXPECT_DEATH(static_cast<void>(region.slice(0, 101)), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(101, 0)), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(101)), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(std::numeric_limits<std::uint64_t>::max(), 2)), rule);
  EXPECT_DEATH(static_cast<void>(region.slice(1, std::numeric_limits<std::uint64_t>::max())), rule);
}

TEST(remote_region_death, end_beyond_the_address_space_aborts) {
  EXPECT_DEATH(remote_region({.address = ~std::uint64_t{0}, .length = 1, .key = {}}),
               "a remote region exceeds the 64-bit address space");
}

}  // namespace
}  // namespace verbena
