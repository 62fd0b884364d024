// SPDX-License-Identifier: MIT
// `verbena launch-agent`: runs the ranks of one host for `verbena launch` on another host.
#pragma once

#include "tools/verbena/options.hpp"

namespace verbena::tool {

/// Reads a job from standard input, runs its ranks, and returns the exit status. If standard input
/// ends, the ranks receive SIGTERM, and SIGKILL after 5 s.
[[nodiscard]] int execute(const agent_options& options);

}  // namespace verbena::tool
