// SPDX-License-Identifier: MIT
// `verbena launch`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Starts the ranks of a group on this host, waits until all have ended, and returns the exit
/// status.
[[nodiscard]] int execute(const launch_options& options);

}  // namespace verbena::tool
