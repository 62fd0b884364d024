// SPDX-License-Identifier: MIT
// Detection of the exit of another process.
#pragma once

#include <sys/types.h>

#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// Watches one process by a pidfd. Threads: one thread at a time; const functions are thread-safe.
class process_watch {
 public:
  process_watch() noexcept = default;
  /// A process outside this pid namespace, whose pid is 0 here, cannot be watched.
  explicit process_watch(pid_t pid) noexcept;

  /// Returns a descriptor that is readable when the process has exited; -1 if it cannot be watched
  /// or has exited.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Returns whether the process can be watched.
  [[nodiscard]] bool watchable() const noexcept { return watchable_; }
  /// Returns whether the process is known to have exited. One system call.
  [[nodiscard]] bool exited() const noexcept;

 private:
  unique_fd fd_;
  bool watchable_ = false;
};

/// Returns whether process `pid` is stopped or traced, according to /proc; false if that is
/// unknown.
[[nodiscard]] bool is_stopped(pid_t pid) noexcept;

}  // namespace verbena::softdev
