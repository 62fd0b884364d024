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

/// Returns whether peers address the port by its GID: Ethernet has no LIDs, and a port with a
/// vendor-specific link layer, such as EFA's, may have no LID.
[[nodiscard]] inline bool is_addressed_by_gid(const port_attributes& port) noexcept {
  return port.link_layer() == link_layer::ethernet ||
         (port.link_layer() == link_layer::unspecified && port.lid() == lid(0));
}

}  // namespace verbena::inline VERBENA_ABI::detail
