// SPDX-License-Identifier: MIT
#include "verbena/sys/verb.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::sys {
namespace {

using creates = verb<"make_int", failure::null_and_errno, int*(int)>;
using returns_errno = verb<"positive", failure::positive_errno, int(int)>;
using returns_minus_one = verb<"minus", failure::minus_one_and_errno, int(int)>;
using counts = verb<"count", failure::negative_errno, long(int)>;
using cannot = verb<"free_int", failure::cannot_fail, void(int*)>;

int twice(int value) { return 2 * value; }

TEST(verb, has_its_name_and_calls_its_function) {
  returns_errno member;
  EXPECT_EQ(member.name(), "positive");
  member.set(&twice);
  EXPECT_TRUE(member.available());
  EXPECT_EQ(member.get(), &twice);
  EXPECT_EQ(member(21), 42);
}

TEST(verb, missing_function_reports_eopnotsupp) {
  errno = 0;
  EXPECT_FALSE(creates().available());
  EXPECT_EQ(creates()(1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(returns_errno()(1), EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(returns_minus_one()(1), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(counts()(1), -EOPNOTSUPP);
  cannot()(nullptr);
}

TEST(verb, set_with_nullptr_makes_function_missing) {
  returns_errno member;
  member.set(&twice);
  member.set(nullptr);
  EXPECT_FALSE(member.available());
  EXPECT_EQ(member(1), EOPNOTSUPP);
}

TEST(verb, fail_follows_the_convention_of_the_function) {
  errno = 0;
  EXPECT_EQ(creates::fail(EBUSY), nullptr);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(returns_errno::fail(EBUSY), EBUSY);
  EXPECT_EQ(returns_minus_one::fail(EBUSY), -1);
  EXPECT_EQ(counts::fail(EBUSY), -EBUSY);
  EXPECT_FALSE(cannot::can_fail);
  EXPECT_TRUE(creates::can_fail);
}

}  // namespace
}  // namespace verbena::sys
