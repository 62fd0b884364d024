// SPDX-License-Identifier: MIT
// Running a piece of a test in a child process, and commands.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace verbena::softdev::testing {

/// Runs `work` in a child made by fork and returns what it returned (0 … 255), or 1000 plus the
/// signal that ended it. A child that takes longer than a minute is killed.
[[nodiscard]] int in_child(const std::function<int()>& work);

/// What a shell command writes to standard output. Throws when it fails.
[[nodiscard]] std::string output_of(const std::string& command);
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

}  // namespace verbena::softdev::testing
