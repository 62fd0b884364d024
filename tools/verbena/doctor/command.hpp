// SPDX-License-Identifier: MIT
// `verbena doctor`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Prints the findings and returns the exit status. Blocks while it queries and tests the devices.
[[nodiscard]] int execute(const doctor_options& options);

}  // namespace verbena::tool
