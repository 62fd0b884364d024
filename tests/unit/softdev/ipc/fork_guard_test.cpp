// SPDX-License-Identifier: MIT
#include "softdev/ipc/fork_guard.hpp"

#include <gtest/gtest.h>

#include "tests/unit/softdev/peers/link_pair.hpp"

namespace verbena::softdev {
namespace {

TEST(fork_guard, detects_the_child) {
  const fork_guard guard;
  EXPECT_TRUE(guard.same_process());
  testing::child child([&](int) { return guard.same_process() ? 1 : 0; });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(guard.same_process());
}

}  // namespace
}  // namespace verbena::softdev
