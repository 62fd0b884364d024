// SPDX-License-Identifier: MIT
// A process without free descriptors.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace verbena::softdev {

/// While it exists, the process cannot open descriptors.
class full_descriptor_table {
 public:
  full_descriptor_table() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int lowest = ::dup(STDERR_FILENO);
    ::close(lowest);
    const rlimit full{static_cast<rlim_t>(lowest), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  }
  ~full_descriptor_table() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  full_descriptor_table(const full_descriptor_table&) = delete;
  full_descriptor_table& operator=(const full_descriptor_table&) = delete;

 private:
  rlimit before_{};
};

}  // namespace verbena::softdev
