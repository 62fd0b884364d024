// SPDX-License-Identifier: MIT
// A process with few free descriptors, or none.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// While it exists, the process can open at most `spare` descriptors.
class descriptor_limit {
 public:
  explicit descriptor_limit(std::size_t spare) {
    std::vector<unique_fd> next;
    while (next.size() <= spare) next.emplace_back(::dup(STDERR_FILENO));
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit limited = before_;
    limited.rlim_cur = static_cast<rlim_t>(next.back().get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limited), 0);
  }
  ~descriptor_limit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  descriptor_limit(const descriptor_limit&) = delete;
  descriptor_limit& operator=(const descriptor_limit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace verbena::softdev
