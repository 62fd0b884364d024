// SPDX-License-Identifier: MIT
// Why there is no device.
#pragma once

#include <string>

namespace verbena::tool {

/// One line for each side that devices come from: why it has none, and what to do. Asks both.
[[nodiscard]] std::string explain_absence();

}  // namespace verbena::tool
