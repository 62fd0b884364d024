// SPDX-License-Identifier: MIT
// `verbena store`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Runs a store until SIGINT or SIGTERM, and returns the exit status.
[[nodiscard]] int execute(const store_options& options);

}  // namespace verbena::tool
