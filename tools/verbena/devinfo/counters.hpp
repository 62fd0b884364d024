// SPDX-License-Identifier: MIT
// Counters: of adapters from sysfs, of soft0 from the processes that use it.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/verbena/devinfo/document.hpp"
#include "verbena/verbs/device.hpp"

namespace verbena::tool {

/// Returns the counters of a device: of each port, or, for soft0, of each process that this user
/// may examine. A device without counters has an empty list.
[[nodiscard]] section describe_counters(const device& which, std::optional<std::uint32_t> port);

}  // namespace verbena::tool
