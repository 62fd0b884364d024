// SPDX-License-Identifier: MIT
// Determines whether the preload library can have an effect in a program.
#pragma once

#include <string>

#include "tools/verbena/run/program.hpp"

namespace verbena::tool {

/// Describes why the preload library does not give soft0 to the program, and the remedy. Returns an
/// empty text if the library may have an effect: the program links libibverbs, may load other
/// libraries, or may start other programs. Runs the loader of the program and reads its files.
[[nodiscard]] std::string missed_by_preload(const program& found);

}  // namespace verbena::tool
