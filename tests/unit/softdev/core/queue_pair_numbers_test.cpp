// SPDX-License-Identifier: MIT
#include "softdev/core/queue_pair_numbers.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace verbena::softdev {
namespace {

TEST(queue_pair_numbers, numbers_in_use_are_distinct_and_lie_in_the_range_of_the_slot) {
  queue_pair_numbers numbers(slot_count - 1);
  std::set<std::uint32_t> indexes;
  for (std::uint32_t i = 0; i < numbers.limit(); ++i) {
    const auto number = numbers.take();
    ASSERT_TRUE(number.has_value());
    EXPECT_EQ(slot_of_number(*number), slot_count - 1);
    EXPECT_TRUE(numbers.is_local(*number));
    EXPECT_NE(*number, 0xff'ffffU);
    EXPECT_TRUE(indexes.insert(index_of_number(*number)).second);
  }
  EXPECT_EQ(numbers.in_use(), numbers.limit());
  EXPECT_FALSE(numbers.is_local(0));
}

TEST(queue_pair_numbers, take_with_all_numbers_in_use_returns_nullopt_until_one_is_given_back) {
  queue_pair_numbers numbers(slot_count - 1);
  std::uint32_t last = 0;
  while (const auto number = numbers.take()) last = *number;
  numbers.give_back(last);
  EXPECT_TRUE(numbers.take().has_value());
  EXPECT_FALSE(numbers.take().has_value());
}

TEST(queue_pair_numbers, number_given_back_is_not_taken_before_1024_others_are_given_back) {
  queue_pair_numbers numbers(5);
  const std::uint32_t first = numbers.take().value();
  numbers.give_back(first);
  for (int i = 0; i < 1024; ++i) {
    const std::uint32_t number = numbers.take().value();
    ASSERT_NE(number, first) << i;
    numbers.give_back(number);
  }
  EXPECT_EQ(numbers.in_use(), 0U);
  EXPECT_EQ(numbers.taken(), 1025U);
}

TEST(queue_pair_numbers, reserved_numbers_are_not_taken) {
  queue_pair_numbers numbers(0);
  for (std::uint32_t i = 0; i < numbers.limit(); ++i) EXPECT_GT(numbers.take().value(), 1U);
}

}  // namespace
}  // namespace verbena::softdev
