// SPDX-License-Identifier: MIT
// `verbena devinfo`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Prints the devices; returns the exit status. Blocks while devices are asked.
[[nodiscard]] int execute(const devinfo_options& options);

}  // namespace verbena::tool
