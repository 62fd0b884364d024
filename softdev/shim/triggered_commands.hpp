// SPDX-License-Identifier: MIT
// Commands that are executed when a request starts.
#pragma once

#include <cstdint>

#include "softdev/core/fault_rule.hpp"
#include "softdev/shim/command.hpp"

namespace verbena::softdev {

/// Adds a rule to the engine: before a request that it selects is sent, a thread of the device
/// executes `act` and logs its failure. Returns 0, or the errno of starting the thread.
[[nodiscard]] int add_triggered_command(host& home, fault_rule rule, command act);

}  // namespace verbena::softdev
