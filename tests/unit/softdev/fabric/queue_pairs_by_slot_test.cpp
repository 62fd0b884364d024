// SPDX-License-Identifier: MIT
#include "softdev/fabric/queue_pairs_by_slot.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace verbena::softdev {
namespace {

std::vector<std::uint32_t> list_of(const queue_pairs_by_slot& all, std::uint32_t slot) {
  std::vector<std::uint32_t> found;
  all.for_each(slot, [&](std::uint32_t index) { found.push_back(index); });
  return found;
}

std::vector<std::uint32_t> slots_of(const queue_pairs_by_slot& all) {
  std::vector<std::uint32_t> found;
  all.for_each_slot([&](std::uint32_t slot) { found.push_back(slot); });
  return found;
}

using numbers = std::vector<std::uint32_t>;

TEST(queue_pairs_by_slot, list_keeps_the_order_of_insertion) {
  queue_pairs_by_slot all;
  EXPECT_TRUE(all.empty());
  for (const std::uint32_t index : {7U, 0U, 16383U}) all.insert(1023, index);
  all.insert(1023, 7);
  EXPECT_EQ(list_of(all, 1023), (numbers{7, 0, 16383}));
  EXPECT_EQ(all.count_of(1023), 3U);
  EXPECT_EQ(slots_of(all), numbers{1023});
  EXPECT_EQ(all.take_first(1023), 7U);
  all.insert(1023, 7);
  EXPECT_EQ(list_of(all, 1023), (numbers{0, 16383, 7}));
}

TEST(queue_pairs_by_slot, erased_queue_pair_leaves_its_list) {
  queue_pairs_by_slot all;
  for (std::uint32_t index = 0; index < 4; ++index) all.insert(0, index);
  all.erase(1);
  all.erase(1);
  EXPECT_EQ(list_of(all, 0), (numbers{0, 2, 3}));
  all.erase(0);
  all.erase(3);
  EXPECT_EQ(list_of(all, 0), numbers{2});
  EXPECT_EQ(all.take_first(0), 2U);
  EXPECT_EQ(all.take_first(0), std::nullopt);
  EXPECT_TRUE(all.empty());
  EXPECT_TRUE(slots_of(all).empty());
}

TEST(queue_pairs_by_slot, inserted_queue_pair_leaves_its_earlier_list) {
  queue_pairs_by_slot all;
  all.insert(3, 5);
  all.insert(3, 6);
  all.insert(64, 5);
  EXPECT_EQ(list_of(all, 3), numbers{6});
  EXPECT_EQ(list_of(all, 64), numbers{5});
  EXPECT_TRUE(all.contains(64, 5));
  EXPECT_FALSE(all.contains(3, 5));
  EXPECT_EQ(slots_of(all), (numbers{3, 64}));
}

}  // namespace
}  // namespace verbena::softdev
