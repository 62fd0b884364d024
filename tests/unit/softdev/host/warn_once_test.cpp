// SPDX-License-Identifier: MIT
#include "softdev/host/warn_once.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

std::atomic<int> lines{0};

// Counts the lines that are logged during its life.
struct counted_log {
  counted_log() {
    lines = 0;
    set_log_hook([](log_level level, std::string_view /*line*/, void* /*user*/) {
      if (level == log_level::warning) ++lines;
    });
  }
  ~counted_log() { set_log_hook(nullptr); }
};

// A line that no earlier run of a test had.
std::string new_line() {
  static int count = 0;
  return "line " + std::to_string(++count);
}

TEST(warn_once, equal_lines_are_logged_once) {
  const counted_log log;
  const std::string line = new_line();
  for (int i = 0; i < 5; ++i) warn_once(line);
  EXPECT_EQ(lines, 1);
  warn_once(new_line());
  EXPECT_EQ(lines, 2);
}

TEST(warn_once, equal_lines_of_threads_are_logged_once) {
  const counted_log log;
  const std::string line = new_line();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { warn_once(line); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(lines, 1);
}

// Whether `work` logs this number of lines in a child.
template <class Work>
bool child_logs(int count, const Work& work) {
  lines = 0;
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(lines == count ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(warn_once, child_logs_the_line_of_its_parent) {
  const counted_log log;
  const std::string line = new_line();
  warn_once(line);
  EXPECT_TRUE(child_logs(1, [&] {
    warn_once(line);
    warn_once(line);
  }));
}

TEST(warn_once, more_lines_than_the_record_holds_are_logged) {
  const counted_log log;
  EXPECT_TRUE(child_logs(300, [] {
    for (int i = 0; i < 300; ++i) warn_once(new_line());
  }));
}

}  // namespace
}  // namespace verbena::softdev
