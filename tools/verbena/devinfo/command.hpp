// SPDX-License-Identifier: MIT
// `verbena devinfo`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Prints the devices and returns the exit status. Blocks while it queries the devices.
[[nodiscard]] int execute(const devinfo_options& options);

}  // namespace verbena::tool
