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

TEST(active_set, drain_from_an_index_visits_the_indices_before_it_last) {
  const auto set = std::make_unique<active_set>();
  const auto drain_from = [&](std::uint32_t begin) {
    indices visited;
    set->drain_from(begin, [&](std::uint32_t index) {
      visited.push_back(index);
      set->insert(index);
    });
    return visited;
  };
  for (const std::uint32_t index : {0U, 5U, 63U, 64U, 70U, 4095U, 4096U, last}) set->insert(index);
  EXPECT_EQ(drain_from(0), (indices{0, 5, 63, 64, 70, 4095, 4096, last}));
  EXPECT_EQ(drain_from(5), (indices{5, 63, 64, 70, 4095, 4096, last, 0}));
  EXPECT_EQ(drain_from(6), (indices{63, 64, 70, 4095, 4096, last, 0, 5}));
  EXPECT_EQ(drain_from(64), (indices{64, 70, 4095, 4096, last, 0, 5, 63}));
  EXPECT_EQ(drain_from(4096), (indices{4096, last, 0, 5, 63, 64, 70, 4095}));
  EXPECT_EQ(drain_from(last), (indices{last, 0, 5, 63, 64, 70, 4095, 4096}));
  indices visited;
  set->drain_from(70, [&](std::uint32_t index) { visited.push_back(index); });
  EXPECT_EQ(visited, (indices{70, 4095, 4096, last, 0, 5, 63, 64}));
  EXPECT_TRUE(set->empty());
}

}  // namespace
}  // namespace verbena::softdev
