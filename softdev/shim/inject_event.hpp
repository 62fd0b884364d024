// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "softdev/host/host.hpp"

namespace verbena::softdev {

/// Does what a command of verbena_soft_inject_event says. 0, or EINVAL.
[[nodiscard]] int inject_event(host& home, std::string_view text);

/// Starts to do what VERBENA_SOFTDEV_EVENTS says, at the first call in the process: commands, each
/// after so many milliseconds, on a thread of their own. Never fails: what makes no sense is
/// logged.
void start_script(host& home);

}  // namespace verbena::softdev
