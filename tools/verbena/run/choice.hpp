// SPDX-License-Identifier: MIT
// Which way a program takes to the software device.
#pragma once

#include <string>

#include "tools/verbena/options.hpp"
#include "tools/verbena/run/program.hpp"

namespace verbena::tool {

/// A way and why. Threads: immutable value.
struct choice {
  tool::way way = way::dropin;
  std::string reason;
};

/// The way for this program, unless the user said one. May start the program's loader.
[[nodiscard]] choice choose_way(const program& found, way asked);

}  // namespace verbena::tool
