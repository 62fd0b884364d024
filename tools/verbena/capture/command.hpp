// SPDX-License-Identifier: MIT
// `verbena capture`: runs a program and writes its traffic over soft0 as packets.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Runs the command and returns the exit status of the program.
[[nodiscard]] int execute(const capture_options& options);

}  // namespace verbena::tool
