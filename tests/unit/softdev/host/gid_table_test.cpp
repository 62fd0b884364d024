// SPDX-License-Identifier: MIT
#include "softdev/host/gid_table.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::softdev {
namespace {

gid_entry entry(std::uint8_t last, std::uint32_t interface = 1) {
  gid_entry made;
  made.gid[15] = last;
  made.interface_index = interface;
  return made;
}

TEST(gid_table, unchanged_address_keeps_its_index) {
  gid_table table(std::vector{entry(1), entry(2), entry(3)});
  EXPECT_FALSE(table.set(std::vector{entry(3), entry(1), entry(2)}));
  EXPECT_TRUE(table.set(std::vector{entry(3), entry(1)}));
  EXPECT_EQ(table.at(0), entry(1));
  EXPECT_TRUE(table.at(1).empty());
  EXPECT_EQ(table.at(2), entry(3));
  EXPECT_TRUE(table.set(std::vector{entry(1), entry(3), entry(4), entry(5)}));
  EXPECT_EQ(table.at(1), entry(4));
  EXPECT_EQ(table.at(3), entry(5));
  EXPECT_TRUE(table.contains(entry(4).gid));
  EXPECT_FALSE(table.contains(entry(2).gid));
  EXPECT_FALSE(table.contains(gid_entry{}.gid));
}

TEST(gid_table, version_differs_after_each_change) {
  gid_table table(std::vector{entry(1)});
  const std::uint64_t first = table.version();
  EXPECT_NE(first, 0U);
  EXPECT_FALSE(table.set(std::vector{entry(1)}));
  EXPECT_EQ(table.version(), first);
  EXPECT_TRUE(table.set(std::vector{entry(2)}));
  const std::uint64_t second = table.version();
  EXPECT_NE(second, first);
  table.move();
  EXPECT_NE(table.version(), second);
}

TEST(gid_table, address_on_another_interface_is_a_new_entry) {
  gid_table table(std::vector{entry(1, 1)});
  EXPECT_TRUE(table.set(std::vector{entry(1, 2)}));
  EXPECT_EQ(table.at(0).interface_index, 2U);
}

TEST(gid_table, addresses_beyond_the_capacity_are_omitted) {
  std::vector<gid_entry> many;
  for (std::uint8_t i = 1; i <= 100; ++i) many.push_back(entry(i));
  gid_table table(many);
  EXPECT_EQ(table.at(gid_table::length - 1), entry(gid_table::length));
  EXPECT_TRUE(table.at(gid_table::length).empty());
  EXPECT_FALSE(table.contains(entry(100).gid));
}

}  // namespace
}  // namespace verbena::softdev
