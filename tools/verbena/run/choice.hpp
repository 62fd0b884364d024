// SPDX-License-Identifier: MIT
// Chooses the method by which a program uses the software device.
#pragma once

#include <string>

#include "tools/verbena/options.hpp"
#include "tools/verbena/run/program.hpp"

namespace verbena::tool {

/// A method and the reason for it. Threads: immutable value.
struct choice {
  tool::way way = way::dropin;
  std::string reason;
};

/// Returns the method in `asked`. If `asked` is `automatic`, chooses a method; this may run the
/// loader of the program.
[[nodiscard]] choice choose_way(const program& found, way asked);

}  // namespace verbena::tool
