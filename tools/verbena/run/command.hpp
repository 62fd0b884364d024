// SPDX-License-Identifier: MIT
// `verbena run`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Replaces this process by the program. Returns only on failure: a run_status, after one line on
/// stderr with the reason.
[[nodiscard]] int execute(const run_options& options);

}  // namespace verbena::tool
