// SPDX-License-Identifier: MIT
#include "softdev/ipc/process_watch.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/unit/softdev/peers/link_pair.hpp"

namespace verbena::softdev {
namespace {

TEST(process_watch, detects_process_exit) {
  testing::child child([](int) {
    ::pause();
    return 0;
  });
  const process_watch watch(child.pid());
  EXPECT_TRUE(watch.watchable());
  EXPECT_FALSE(watch.exited());
  child.send(SIGKILL);
  EXPECT_TRUE(wait_for_fd(watch.fd(), POLLIN, deadline::after(testing::test_timeout)).value());
  EXPECT_TRUE(watch.exited()) << "the exit is detected before the process is reaped";
  EXPECT_EQ(child.wait(), -SIGKILL);
  EXPECT_TRUE(watch.exited());
}

TEST(process_watch, of_exited_process_reports_exit) {
  pid_t gone = 0;
  {
    testing::child child([](int) { return 3; });
    gone = child.pid();
    EXPECT_EQ(child.wait(), 3);
  }
  const process_watch watch(gone);
  EXPECT_TRUE(watch.exited());
}

TEST(process_watch, of_unknown_process_fails) {
  const process_watch watch(0);
  EXPECT_FALSE(watch.watchable());
  EXPECT_FALSE(watch.exited());
  EXPECT_FALSE(process_watch().exited());
}

TEST(process_watch, stopped_process_is_distinguished_from_running_process) {
  testing::child child([](int to_parent) {
    ::prctl(PR_SET_NAME, "a) S (b");  // a name that contains the delimiter of the name
    testing::send_value(to_parent, 1);
    for (;;) ::pause();
    return 0;
  });
  EXPECT_EQ(child.read<int>(), 1);
  EXPECT_FALSE(is_stopped(child.pid()));
  child.send(SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  EXPECT_TRUE(is_stopped(child.pid()));
  child.send(SIGCONT);
  ASSERT_EQ(::waitpid(child.pid(), &status, WCONTINUED), child.pid());
  EXPECT_FALSE(is_stopped(child.pid()));
  EXPECT_FALSE(is_stopped(0));
}

}  // namespace
}  // namespace verbena::softdev
