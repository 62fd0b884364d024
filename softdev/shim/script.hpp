// SPDX-License-Identifier: MIT
// Scripts of commands that inject events and faults: the text of verbena_soft_inject_event, of
// VERBENA_SOFTDEV_INJECT and of files.
//
//   SCRIPT:  STEP (';' or end of line) STEP …; '#' begins a comment, which ends with the line
//   STEP:    [DURATION] COMMAND: waits DURATION after the previous step, then executes COMMAND
//   or       @FILE: the script is the content of the file
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "softdev/shim/command.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// One command of a script.
struct script_step {
  std::chrono::microseconds after{};
  command act;
  std::string text;
};
using script = std::vector<script_step>;

/// Reads a script. `source` names it in errors. Errors: `invalid_argument` with line, column and
/// what is permitted there; the errno of a file that cannot be read.
[[nodiscard]] result<script> read_script(const std::string& source, std::string_view text);

/// Executes the steps before the first duration above 0 on this thread, and the others on a new
/// thread, which logs failures. Returns 0, or the errno of the first step that failed on this
/// thread or of starting the thread; then no further step is executed.
[[nodiscard]] int run_script(host& home, script steps);

/// Executes VERBENA_SOFTDEV_INJECT, once for each host. Errors: those of read_script and
/// run_script.
[[nodiscard]] result<void> run_script_of_environment(host& home);

}  // namespace verbena::softdev
