// SPDX-License-Identifier: MIT
#include "verbena/base/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace verbena {
namespace {

TEST(random_numbers, numbers_do_not_repeat) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_u64());
  EXPECT_EQ(seen.size(), 1000U) << "the probability of a repetition among 1000 is 3 in 10^14";
}

TEST(random_numbers, every_bit_takes_both_values) {
  std::uint32_t ones = 0;
  std::uint32_t zeros = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t number = random_u32();
    ones |= number;
    zeros |= ~number;
  }
  EXPECT_EQ(ones, ~0U);
  EXPECT_EQ(zeros, ~0U);
}

TEST(random_numbers, fill_reaches_every_byte_of_long_spans) {
  // Longer than the most bytes that one call of getrandom(2) returns.
  std::vector<std::byte> bytes(100'000);
  std::vector<bool> changed(bytes.size());
  for (int round = 0; round < 8; ++round) {
    fill_random(bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != std::byte{0}) changed[i] = true;
  }
  EXPECT_TRUE(std::all_of(changed.begin(), changed.end(), [](bool is) { return is; }));
  fill_random({});
}

}  // namespace
}  // namespace verbena
