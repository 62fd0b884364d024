// SPDX-License-Identifier: MIT
// Whether a device is of iWARP, of which the verbs themselves say little.
#pragma once

#include <infiniband/verbs.h>

#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Whether connections of this device are of iWARP.
[[nodiscard]] inline bool is_iwarp(const ibv_context& device) {
  return device.device->transport_type == IBV_TRANSPORT_IWARP;
}

/// The same.
[[nodiscard]] inline bool is_iwarp(const context& device) { return is_iwarp(*device.native()); }

}  // namespace verbena::inline VERBENA_ABI::detail
