// SPDX-License-Identifier: MIT
// The environment of the program that `verbena run` starts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/verbena/run/artifacts.hpp"
#include "tools/verbena/run/choice.hpp"

namespace verbena::tool {

/// Names and values of the variables to set.
using settings = std::vector<std::pair<std::string, std::string>>;

/// Puts `entry` at the front of a colon-separated list of the loader. Returns `list` unchanged if
/// `entry` is already at its front.
[[nodiscard]] std::string put_first(const std::string& entry, std::string_view list);

/// Returns the variables with which a program uses the software device by the method `chosen`.
/// Keeps the LD_PRELOAD and LD_LIBRARY_PATH of the user after the new entries. Reads the
/// environment.
[[nodiscard]] settings environment_for(way chosen, const artifacts& from);

}  // namespace verbena::tool
