// SPDX-License-Identifier: MIT
#pragma once

#include <sys/wait.h>

namespace verbena::tool {

/// Returns the exit status of a process that ended with this status of waitpid(2), as a shell does:
/// 128 + N if signal N ended it.
[[nodiscard]] inline int exit_status_of(int ended) {
  constexpr int signal_base = 128;
  return WIFEXITED(ended) ? WEXITSTATUS(ended) : signal_base + WTERMSIG(ended);
}

}  // namespace verbena::tool
