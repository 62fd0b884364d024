// SPDX-License-Identifier: MIT
// Starts a program. Returns the errno if it cannot be executed.
#pragma once

#include <sys/types.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

namespace verbena::tool {

/// Options of spawn(). Threads: one thread at a time.
struct spawn_options {
  /// Standard input, output and error of the program; -1: those of this process.
  std::array<int, 3> streams{-1, -1, -1};
  sigset_t mask{};             ///< blocked signals of the program
  bool has_own_group = false;  ///< it becomes the leader of a new process group
};

/// A process, or the errno of fork(2), pipe2(2) or execvp(3). Threads: immutable value.
struct spawned {
  pid_t pid = 0;   ///< 0: the program was not started
  int code = 0;    ///< errno if it was not started
  int status = 0;  ///< the exit status for `code`, as of env(1)
};

/// Starts a program with the environment of this process, and waits until it executes. The program
/// receives SIGTERM when this process ends.
[[nodiscard]] spawned spawn(const std::vector<std::string>& program, const spawn_options& options);

/// Returns "ended with status 7" or "was ended by signal 9 (Killed)" for a status of waitpid(2).
[[nodiscard]] std::string describe_end(int ended);

}  // namespace verbena::tool
