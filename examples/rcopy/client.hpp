// SPDX-License-Identifier: MIT
// `rcopy put` and `rcopy get`.
#pragma once

#include "examples/rcopy/options.hpp"

namespace rcopy {

/// Runs the command, prints its result and returns the exit status.
[[nodiscard]] int run(const put_options& options);
[[nodiscard]] int run(const get_options& options);

}  // namespace rcopy
