// SPDX-License-Identifier: MIT
// `verbena run`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Becomes the program. Returns only if that failed: a number of run_status, after one line on
/// stderr that says why.
[[nodiscard]] int execute(const run_options& options);

}  // namespace verbena::tool
