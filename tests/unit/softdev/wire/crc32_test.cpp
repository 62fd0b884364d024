// SPDX-License-Identifier: MIT
#include "softdev/wire/crc32.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr crc32_method methods[] = {crc32_method::table, crc32_method::pclmul,
                                    crc32_method::vpclmul};

/// Computes the CRC bit by bit.
std::uint32_t by_definition(std::uint32_t state, std::span<const std::byte> bytes) {
  for (const std::byte each : bytes) {
    state ^= std::to_integer<std::uint32_t>(each);
    for (int bit = 0; bit < 8; ++bit)
      state = (state >> 1U) ^ ((state & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return state;
}

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

// parity: rocev2-20
TEST(softdev_wire_crc32, value_of_the_check_string_is_the_published_one) {
  for (const crc32_method method : methods) {
    if (!is_available(method)) continue;
    EXPECT_EQ(~crc32_update(method, crc32_start, bytes_of("123456789")), 0xcbf43926U);
  }
}

// parity: rocev2-20
TEST(softdev_wire_crc32, each_method_agrees_with_the_definition_at_each_length) {
  const auto bytes = random_bytes(1200);
  for (const crc32_method method : methods) {
    if (!is_available(method)) continue;
    std::uint32_t expected = 0x1234'5678;
    for (std::size_t length = 0; length <= 1100; ++length) {
      const std::size_t offset = length % 17;
      const auto part = std::span(bytes).subspan(offset, length);
      expected = by_definition(0x1234'5678, part);
      ASSERT_EQ(crc32_update(method, 0x1234'5678, part), expected)
          << static_cast<int>(method) << ' ' << length;
    }
    const auto packet = random_bytes(4096);
    EXPECT_EQ(crc32_update(method, crc32_start, packet), by_definition(crc32_start, packet));
  }
}

TEST(softdev_wire_crc32, state_before_zeros_leads_to_the_state_after_them) {
  const std::vector<std::byte> zeros(70000);
  for (const std::size_t count : {0U, 1U, 2U, 3U, 64U, 1000U, 4096U, 65535U, 70000U}) {
    const std::uint32_t before = crc32_before_zeros(0xfeed'beef, count);
    EXPECT_EQ(by_definition(before, std::span(zeros).first(count)), 0xfeed'beefU) << count;
  }
}

}  // namespace
}  // namespace verbena::softdev::wire
