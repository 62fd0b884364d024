// SPDX-License-Identifier: MIT
// The reasons why no device is listed.
#pragma once

#include <string>

namespace verbena::tool {

/// Returns one line per provider: why it lists no device, and the remedy. Queries both providers.
[[nodiscard]] std::string explain_absence();

}  // namespace verbena::tool
