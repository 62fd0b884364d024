// SPDX-License-Identifier: MIT
#include "softdev/ipc/fork_generation.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::softdev {
namespace {

TEST(generation, generation_differs_in_each_forked_child) {
  const std::uint32_t mine = current_generation();
  EXPECT_NE(mine, 0U);
  EXPECT_EQ(current_generation(), mine);
  EXPECT_TRUE(is_current_generation(mine));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // 1: the child has the generation of its parent; 2: the generation of the child is invalid.
    if (is_current_generation(mine)) _exit(1);
    const std::uint32_t own = current_generation();
    if (own == mine || own == 0 || !is_current_generation(own)) _exit(2);
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(is_current_generation(own) || current_generation() == mine ? 1 : 0);
    int status = 1;
    waitpid(grandchild, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(is_current_generation(mine));
}

}  // namespace
}  // namespace verbena::softdev
