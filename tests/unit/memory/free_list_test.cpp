// SPDX-License-Identifier: MIT
#include "src/memory/free_list.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace verbena::detail {
namespace {

TEST(free_list, empty_list_has_no_number) { EXPECT_EQ(free_list(0).pop(), std::nullopt); }

TEST(free_list, returns_the_last_freed_number) {
  free_list list(3);
  EXPECT_EQ(list.pop(), 0U);
  EXPECT_EQ(list.pop(), 1U);
  list.push(0);
  EXPECT_EQ(list.pop(), 0U);
  EXPECT_EQ(list.pop(), 2U);
  EXPECT_EQ(list.pop(), std::nullopt);
  list.push(2);
  list.push(1);
  EXPECT_EQ(list.pop(), 1U);
}

// Compares the list with a std::vector that is used as a stack.
TEST(free_list, is_a_stack) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto count = static_cast<std::uint32_t>(random() % 40);
    free_list list(count);
    std::vector<std::uint32_t> free;
    for (std::uint32_t i = count; i > 0; --i) free.push_back(i - 1);
    std::vector<std::uint32_t> taken;
    for (int step = 0; step < 400; ++step) {
      if (random() % 2 == 0) {
        const auto got = list.pop();
        ASSERT_EQ(got.has_value(), !free.empty()) << "seed " << seed;
        if (!got) continue;
        ASSERT_EQ(*got, free.back()) << "seed " << seed;
        free.pop_back();
        taken.push_back(*got);
      } else if (!taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        list.push(taken.back());
        free.push_back(taken.back());
        taken.pop_back();
      }
    }
  }
}

}  // namespace
}  // namespace verbena::detail
