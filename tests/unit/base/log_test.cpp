// SPDX-License-Identifier: MIT
#include "verbena/base/log.hpp"

#include <gtest/gtest.h>

#include <string>

namespace verbena {
namespace {

TEST(log_hook, receives_every_level_with_its_user) {
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

TEST(log_hook, default_writes_warnings_and_errors_to_standard_error) {
  set_log_hook(nullptr);
  testing::internal::CaptureStderr();
  log(log_level::debug, "not this");
  log(log_level::info, "nor this");
  log(log_level::warning, "watch out");
  log(log_level::error, "too late");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "verbena: warning: watch out\nverbena: error: too late\n");
}

}  // namespace
}  // namespace verbena
