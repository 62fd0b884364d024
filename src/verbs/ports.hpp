// SPDX-License-Identifier: MIT
// The ports of a device.
#pragma once

#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Queries all ports of a device. Errors: those of context::query() and context::query_port().
[[nodiscard]] result<std::vector<port_attributes>> query_ports(const context& device);

}  // namespace verbena::inline VERBENA_ABI::detail
