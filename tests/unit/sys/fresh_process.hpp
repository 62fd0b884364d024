// SPDX-License-Identifier: MIT
// Runs a piece of a test in a process that has loaded nothing yet: libraries stay loaded, and
// providers are remembered.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace verbena::testing_support {

/// Sets environment variables until the end of the scope. The loader reads LD_LIBRARY_PATH when a
/// process starts, so it counts in fresh processes only.
class environment {
 public:
  environment(const char* name, const char* value) : name_(name) {
    const char* const before = ::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;
  ~environment() {
    if (had_) {
      ::setenv(name_, before_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

/// Ends a fresh process: status 0 if no expectation failed in it. Failures were printed.
[[noreturn]] inline void leave_process() {
  const bool failed = ::testing::Test::HasFailure();
  std::fflush(nullptr);
  std::_Exit(failed ? 1 : 0);
}

}  // namespace verbena::testing_support

/// Executes `body` in a new execution of this program; what it expects is reported by its exit
/// status and on standard error.
#define VERBENA_IN_FRESH_PROCESS(body)                 \
  do {                                                 \
    GTEST_FLAG_SET(death_test_style, "threadsafe");    \
    EXPECT_EXIT(                                       \
        {                                              \
          body;                                        \
          ::verbena::testing_support::leave_process(); \
        },                                             \
        ::testing::ExitedWithCode(0), "");             \
  } while (false)
