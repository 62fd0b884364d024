// SPDX-License-Identifier: MIT
#include "verbena/base/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace verbena {
namespace {

TEST(log_hook, hook_receives_all_levels_and_its_user_pointer) {
  std::string seen;
  set_log_hook(
      [](log_level level, std::string_view line, void* user) {
        *static_cast<std::string*>(user) +=
            std::to_string(static_cast<int>(level)) + std::string(line) + ";";
      },
      &seen);
  log(log_level::debug, "a");
  log(log_level::error, "b");
  set_log_hook(nullptr);
  EXPECT_EQ(seen, "0a;3b;");
}

TEST(log_hook, default_hook_writes_warnings_and_errors_to_stderr) {
  set_log_hook(nullptr);
  testing::internal::CaptureStderr();
  log(log_level::debug, "not this");
  log(log_level::info, "nor this");
  log(log_level::warning, "watch out");
  log(log_level::error, "too late");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "verbena: warning: watch out\nverbena: error: too late\n");
}

TEST(log_level, set_log_level_debug_passes_debug_messages_to_the_default_hook) {
  set_log_hook(nullptr);
  set_log_level(log_level::debug);
  testing::internal::CaptureStderr();
  log(log_level::debug, "created");
  set_log_level(log_level::off);
  log(log_level::error, "dropped");
  set_log_hook(nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verbena: debug: created\n");
}

TEST(log_level, environment_variable_sets_the_level_of_the_default_hook) {
  ::setenv("VERBENA_LOG", "info", 1);
  set_log_hook(nullptr);
  EXPECT_TRUE(is_logged(log_level::info));
  EXPECT_FALSE(is_logged(log_level::debug));
  ::setenv("VERBENA_LOG", "nonsense", 1);
  set_log_hook(nullptr);
  EXPECT_TRUE(is_logged(log_level::warning));
  EXPECT_FALSE(is_logged(log_level::info));
  ::unsetenv("VERBENA_LOG");
  set_log_hook(nullptr);
}

TEST(log_level, hook_receives_only_messages_of_its_lowest_level_and_above) {
  int seen = 0;
  set_log_hook([](log_level, std::string_view, void* user) { ++*static_cast<int*>(user); }, &seen,
               log_level::warning);
  log(log_level::info, "a");
  log(log_level::warning, "b");
  set_log_hook(nullptr);
  EXPECT_EQ(seen, 1);
}

TEST(log_level, text_of_a_dropped_message_is_not_created) {
  set_log_hook(nullptr);
  int made = 0;
  log(log_level::debug, [&] {
    ++made;
    return std::string("expensive");
  });
  EXPECT_EQ(made, 0);
}

}  // namespace
}  // namespace verbena
