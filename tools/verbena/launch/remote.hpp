// SPDX-License-Identifier: MIT
// The ranks of a group on several hosts, by ssh.
#pragma once

#include <vector>

#include "tools/verbena/launch/host_file.hpp"
#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Runs the ranks on these hosts, and returns the exit status.
[[nodiscard]] int launch_on(const std::vector<launch_host>& hosts, const launch_options& options);

}  // namespace verbena::tool
