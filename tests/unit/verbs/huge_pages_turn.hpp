// SPDX-License-Identifier: MIT
// A lock for tests that use huge pages, of which a host has few. All test programs share it.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/unit/verbs/proc_file.hpp"

namespace verbena::test {

/// Holds the lock while it exists. The constructor waits for it.
class huge_pages_turn {
 public:
  huge_pages_turn() : file_(::open(path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    static_cast<void>(::flock(file_, LOCK_EX));
  }
  huge_pages_turn(const huge_pages_turn&) = delete;
  huge_pages_turn& operator=(const huge_pages_turn&) = delete;
  ~huge_pages_turn() { ::close(file_); }

  /// As has_huge_pages() of scripts/places.py: at least 4.
  [[nodiscard]] bool some_are_free() const {
    return number_in("/proc/meminfo", "HugePages_Free:") >= 4;
  }

 private:
  static std::string path() {
    const auto name = "verbena-huge-pages-" + std::to_string(::getuid());
    return std::filesystem::temp_directory_path() / name;
  }

  int file_;
};

}  // namespace verbena::test
