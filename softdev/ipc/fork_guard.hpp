// SPDX-License-Identifier: MIT
// Detects that this process is a child of fork(2).
#pragma once

#include <cstdint>

namespace verbena::softdev {

/// A word that is 0 in every child of fork (MADV_WIPEONFORK). Threads: immutable value.
class fork_guard {
 public:
  /// Throws std::system_error if there is no memory, or the kernel has no MADV_WIPEONFORK (before
  /// Linux 4.14).
  fork_guard();
  ~fork_guard();
  fork_guard(const fork_guard&) = delete;
  fork_guard& operator=(const fork_guard&) = delete;

  /// Returns true in the process that created it, false in its children. No system call.
  [[nodiscard]] bool same_process() const noexcept { return *word_ != 0; }

 private:
  volatile std::uint64_t* word_;
};

}  // namespace verbena::softdev
