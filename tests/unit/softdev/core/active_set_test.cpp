// SPDX-License-Identifier: MIT
#include "softdev/core/active_set.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace verbena::softdev {
namespace {

using indices = std::vector<std::uint32_t>;
constexpr std::uint32_t last = limits::queue_pair_indices - 1;

TEST(active_set, visits_each_index_once_and_keeps_it) {
  const auto set = std::make_unique<active_set>();
  EXPECT_TRUE(set->empty());
  for (const std::uint32_t index : {0U, 63U, 64U, 4095U, 4096U, last}) {
    EXPECT_TRUE(set->insert(index));
    EXPECT_FALSE(set->insert(index)) << "it is in the set";
  }
  for (int round = 0; round < 2; ++round) {
    indices visited;
    set->for_each([&](std::uint32_t index) { visited.push_back(index); });
    EXPECT_EQ(visited, (indices{0, 63, 64, 4095, 4096, last}));
  }
}

TEST(active_set, erased_index_is_not_visited) {
  const auto set = std::make_unique<active_set>();
  for (const std::uint32_t index : {1U, 2U, last}) set->insert(index);
  set->erase(2);
  set->erase(3);  // was not in the set
  indices visited;
  set->for_each([&](std::uint32_t index) { visited.push_back(index); });
  EXPECT_EQ(visited, (indices{1, last}));
  EXPECT_TRUE(set->insert(2)) << "it can be inserted again";
}

TEST(active_set, drain_empties_the_set_and_accepts_insertions_by_the_visitor) {
  const auto set = std::make_unique<active_set>();
  for (const std::uint32_t index : {5U, 70U, last}) set->insert(index);
  indices visited;
  set->drain([&](std::uint32_t index) {
    visited.push_back(index);
    if (index == 70) set->insert(index);
  });
  EXPECT_EQ(visited, (indices{5, 70, last}));
  EXPECT_FALSE(set->empty());
  visited.clear();
  set->drain([&](std::uint32_t index) { visited.push_back(index); });
  EXPECT_EQ(visited, indices{70});
  EXPECT_TRUE(set->empty());
}

}  // namespace
}  // namespace verbena::softdev
