// SPDX-License-Identifier: MIT
// The environment that a program gets.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/verbena/run/artefacts.hpp"
#include "tools/verbena/run/choice.hpp"

namespace verbena::tool {

/// Names and values to set; everything else stays as it is.
using settings = std::vector<std::pair<std::string, std::string>>;

/// `entry` in front of a list of the loader's; `entry` alone if the list is empty. A list that
/// begins with it stays as it is.
[[nodiscard]] std::string put_first(const std::string& entry, std::string_view list);

/// What makes a program come to the software device by `chosen`, with the user's own LD_PRELOAD
/// and LD_LIBRARY_PATH kept behind it. Reads the environment.
[[nodiscard]] settings environment_for(way chosen, const artefacts& from);

}  // namespace verbena::tool
