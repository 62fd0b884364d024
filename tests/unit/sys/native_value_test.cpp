// SPDX-License-Identifier: MIT
#include "verbena/sys/native_value.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::sys {
namespace {

struct earlier {
  std::uint32_t first;
};
struct later {
  std::uint32_t first;
  std::uint32_t second;
};

static_assert(sizeof(native_value<earlier, 64>) == sizeof(native_value<later, 64>));

TEST(native_value, returns_the_structure) {
  const native_value<later, 64> value(later{1, 2});
  EXPECT_EQ(value.get().first, 1U);
  EXPECT_EQ(value.get().second, 2U);
  EXPECT_EQ(value.member_at<std::uint32_t>(4), 2U);
}

TEST(native_value, members_that_the_structure_lacks_are_zero) {
  const native_value<earlier, 64> value(earlier{7});
  EXPECT_EQ(value.member_at<std::uint32_t>(0), 7U);
  EXPECT_EQ(value.member_at<std::uint32_t>(4), 0U);
  EXPECT_EQ(value.member_at<std::uint64_t>(56), 0U);
}

}  // namespace
}  // namespace verbena::sys
