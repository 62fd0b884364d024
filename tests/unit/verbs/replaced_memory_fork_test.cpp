// SPDX-License-Identifier: MIT
// Changes of registered memory before fork() are recorded in the child.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "src/check/memory_watch.hpp"
#include "tests/unit/verbs/own_pages.hpp"

namespace verbena::test {
namespace {

#ifdef VERBENA_CHECKED

using detail::in_flight::memory_range;
using detail::in_flight::watched_memory;

class replaced_memory_fork : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!userfaultfd_is_available()) GTEST_SKIP() << "no userfaultfd(2) for this process";
  }
};

// The thread that changes memory continues when the listener has read the event. A fork() at this
// time must wait until the listener has recorded the event.
TEST_F(replaced_memory_fork, child_has_each_change_before_the_fork) {
  for (int round = 0; round < 300; ++round) {
    const pages memory(1);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.at(0));
    const memory_range all{begin, begin + page};
    const auto watched = watched_memory::begin(all, "of the test");
    ASSERT_NE(watched, nullptr);
    memory.discard(0);
    const pid_t child = fork();
    if (child == 0) _exit(watched->changed(all) ? 0 : 1);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "in round " << round;
  }
}

#endif

}  // namespace
}  // namespace verbena::test
