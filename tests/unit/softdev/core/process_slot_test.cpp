// SPDX-License-Identifier: MIT
#include "softdev/core/process_slot.hpp"

#include <gtest/gtest.h>

#include <set>

namespace verbena::softdev {
namespace {

TEST(process_slot, ranges_cover_all_numbers_without_overlap) {
  std::uint32_t next = 0;
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    ASSERT_EQ(first_number_of(slot), next);
    next += count_of_numbers(slot);
    ASSERT_EQ(slot_of_number(first_number_of(slot)), slot);
    ASSERT_EQ(slot_of_number(next - 1), slot);
  }
  EXPECT_EQ(next, 1U << 24U);
}

TEST(process_slot, indices_of_one_slot_differ_and_give_the_numbers_back) {
  for (const std::uint32_t slot :
       {0U, large_slots - 1, large_slots, large_slots + 5, slot_count - 1}) {
    std::set<std::uint32_t> seen;
    for (std::uint32_t i = 0; i < count_of_numbers(slot); ++i) {
      const std::uint32_t number = first_number_of(slot) + i;
      const std::uint32_t index = index_of_number(number);
      ASSERT_LT(index, limits::queue_pair_indices);
      ASSERT_TRUE(seen.insert(index).second);
      ASSERT_EQ(number_at(slot, index), number);
    }
  }
}

TEST(process_slot, limit_of_queue_pairs_depends_on_the_size_of_the_slot) {
  EXPECT_EQ(max_queue_pairs_of(0), 16'368U);
  EXPECT_EQ(max_queue_pairs_of(large_slots - 1), 16'368U);
  EXPECT_EQ(max_queue_pairs_of(large_slots), 1'008U);
  EXPECT_EQ(max_queue_pairs_of(slot_count - 1), 1'008U);
}

}  // namespace
}  // namespace verbena::softdev
