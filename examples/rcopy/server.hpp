// SPDX-License-Identifier: MIT
// `rcopy serve`.
#pragma once

#include "examples/rcopy/options.hpp"

namespace rcopy {

/// Serves until SIGINT or SIGTERM and returns the exit status.
[[nodiscard]] int run(const serve_options& options);

}  // namespace rcopy
