// SPDX-License-Identifier: MIT
// `verbena explain`.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Prints the meaning of vendor error codes of soft0 and returns the exit status.
[[nodiscard]] int execute(const explain_options& options);

}  // namespace verbena::tool
