// SPDX-License-Identifier: MIT
#include "softdev/host/idle_polls.hpp"

#include <gtest/gtest.h>

namespace verbena::softdev {
namespace {

TEST(idle_polls, empty_polls_yield_after_a_limit_until_a_completion_is_found) {
  idle_polls polls;
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < idle_polls::patience; ++i) EXPECT_FALSE(polls.note_nothing());
    EXPECT_TRUE(polls.note_nothing());
    EXPECT_TRUE(polls.note_nothing());
    polls.note_found();
  }
}

}  // namespace
}  // namespace verbena::softdev
