// SPDX-License-Identifier: MIT
// `verbena doctor`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Prints the findings; returns the exit status. Blocks while devices are asked and tried.
[[nodiscard]] int execute(const doctor_options& options);

}  // namespace verbena::tool
