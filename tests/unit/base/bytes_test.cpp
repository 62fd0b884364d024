// SPDX-License-Identifier: MIT
#include "verbena/base/bytes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace verbena {
namespace {

TEST(bytes, bytes_of_text_exclude_the_terminating_zero) {
  const auto bytes = bytes_of("hello");
  ASSERT_EQ(bytes.size(), 5U);
  EXPECT_EQ(bytes[0], std::byte{'h'});
  EXPECT_EQ(bytes[4], std::byte{'o'});
  EXPECT_TRUE(bytes_of("").empty());
}

TEST(bytes, byte_swap_reverses_every_width) {
  EXPECT_EQ(byte_swap(std::uint8_t{0x12}), 0x12);
  EXPECT_EQ(byte_swap(std::uint16_t{0x1234}), 0x3412);
  EXPECT_EQ(byte_swap(std::uint32_t{0x12345678}), 0x78563412U);
  EXPECT_EQ(byte_swap(std::uint64_t{0x123456789abcdef0}), 0xf0debc9a78563412U);
}

TEST(bytes, network_order_stores_the_most_significant_byte_first) {
  std::array<std::byte, 4> bytes;
  store_network_order(bytes.data(), std::uint32_t{0x01020304});
  EXPECT_EQ(bytes, (std::array{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}));
}

TEST(byte_reader, take_past_the_end_returns_nullopt) {
  const std::array bytes = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
  byte_reader reader(bytes);
  EXPECT_EQ(reader.take<std::uint8_t>(), 0x01);
  EXPECT_EQ(reader.take<std::uint16_t>(), 0x0203);
  EXPECT_EQ(reader.take<std::uint32_t>(), std::nullopt);
  EXPECT_EQ(reader.rest().size(), 2U) << "a failed take consumes no bytes";
  EXPECT_EQ(reader.take<std::uint64_t>(), std::nullopt);
  EXPECT_EQ(reader.take<std::uint16_t>(), 0x0405);
  EXPECT_EQ(reader.take<std::uint8_t>(), std::nullopt);
  EXPECT_TRUE(reader.rest().empty());
}

TEST(byte_reader, take_bytes_returns_consecutive_bytes) {
  byte_reader reader(bytes_of("abcdef"));
  const auto first = reader.take_bytes(4);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ((*first)[3], std::byte{'d'});
  EXPECT_FALSE(reader.take_bytes(3).has_value());
  EXPECT_EQ(reader.take_bytes(2)->size(), 2U);
  EXPECT_TRUE(reader.take_bytes(0).has_value());
}

TEST(byte_reader, stored_values_are_read_back) {
  std::array<std::byte, 8> bytes;
  store_network_order(bytes.data(), std::uint64_t{0xfedcba9876543210});
  EXPECT_EQ(byte_reader(bytes).take<std::uint64_t>(), 0xfedcba9876543210U);
}

}  // namespace
}  // namespace verbena
