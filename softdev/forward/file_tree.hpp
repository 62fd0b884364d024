// SPDX-License-Identifier: MIT
// A private directory with the files of soft0, which the C library opens and lists in place of
// files in /sys and /dev.
#pragma once

#include <array>
#include <cstdint>

#include "softdev/forward/kernel_files.hpp"

namespace verbena::forward {

/// The use of a file by a call.
enum class file_use : std::uint8_t {
  look,  ///< reads attributes of the file
  open,  ///< reads a file, or lists a directory
};

/// The place of a file of soft0.
struct file_place {
  enum class state : std::uint8_t {
    elsewhere,  ///< not a file of soft0, or one that the kernel has for its adapters
    here,       ///< at `path`
    refused,    ///< the kernel reports EINVAL when this file is read
  };
  state found = state::elsewhere;
  file_kind kind = file_kind::attribute;
  std::array<char, 640> path;
};

/// A search for a file by the calling thread, which is not canceled while it searches. Threads:
/// thread-bound.
class file_search {
 public:
  file_search() noexcept;
  ~file_search();
  file_search(const file_search&) = delete;
  file_search& operator=(const file_search&) = delete;

  /// Returns false in a signal handler that interrupts a search, in calls by the search itself, and
  /// in a child of vfork(2). These find no files of soft0.
  [[nodiscard]] explicit operator bool() const noexcept { return searches_; }

 private:
  bool searches_;
  int cancellation_ = 0;
};

/// Writes the file into the private directory, with its present content; for a directory that is
/// opened, all files. The first call makes the directory; the exit of the process removes it. A
/// child of fork(2) makes its own. Precondition: the thread searches. Thread-safe.
void place_file(const kernel_file& wanted, file_use use, file_place& place) noexcept;

/// Removes the private directory. Async-signal-safe.
void remove_file_tree() noexcept;

}  // namespace verbena::forward
