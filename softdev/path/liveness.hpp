// SPDX-License-Identifier: MIT
// Whether a process still runs, and whether this process is the one that set things up (fork).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// Watches one process by a pidfd. One thread at a time.
class process_watch {
 public:
  process_watch() noexcept = default;
  /// A pid of 0 (a process outside our pid namespace) cannot be watched.
  explicit process_watch(pid_t pid) noexcept;

  /// Readable when the process has exited; -1 when it cannot be watched or is gone already.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool watchable() const noexcept { return watchable_; }
  /// True when the process is known to have exited. One system call.
  [[nodiscard]] bool exited() const noexcept;

 private:
  unique_fd fd_;
  bool watchable_ = false;
};

/// True when all threads of `pid` are stopped or traced, as /proc says; false when unknown.
[[nodiscard]] bool is_stopped(pid_t pid) noexcept;

/// A word that is zero in every child of fork (MADV_WIPEONFORK). Immutable.
class fork_guard {
 public:
  /// Aborts the program with a rule when the kernel has no MADV_WIPEONFORK (Linux < 4.14).
  fork_guard();
  ~fork_guard();
  fork_guard(const fork_guard&) = delete;
  fork_guard& operator=(const fork_guard&) = delete;

  /// True in the process that made it, false in its children. No system call.
  [[nodiscard]] bool same_process() const noexcept { return *word_ != 0; }

 private:
  volatile std::uint64_t* word_;
};

}  // namespace verbena::softdev
