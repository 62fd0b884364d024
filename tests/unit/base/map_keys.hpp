// SPDX-License-Identifier: MIT
// Checks of types that are keys of hash maps.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace verbena::test {

/// Expects that all values are different keys with different hashes, and that a copy of a value
/// finds its entry. Pass values that differ in one member each, to test that each member is
/// compared and hashed.
template <class Key>
void expect_different_keys(const std::vector<Key>& values) {
  static_assert(std::is_nothrow_invocable_v<std::hash<Key>, const Key&>);
  std::unordered_map<Key, std::size_t> map;
  std::unordered_set<std::size_t> hashes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    map.emplace(values[i], i);
    hashes.insert(std::hash<Key>{}(values[i]));
  }
  EXPECT_EQ(map.size(), values.size());
  EXPECT_EQ(hashes.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < values.size(); ++j)
      EXPECT_EQ(values[i] == values[j], i == j) << i << ", " << j;
    const auto found = map.find(Key(values[i]));
    ASSERT_NE(found, map.end()) << i;
    EXPECT_EQ(found->second, i);
  }
}

}  // namespace verbena::test
