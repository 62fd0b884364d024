// SPDX-License-Identifier: MIT
// Recognition of iWARP devices.
#pragma once

#include <infiniband/verbs.h>

#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns whether the device is an iWARP device.
[[nodiscard]] inline bool is_iwarp(const ibv_context& device) {
  return device.device->transport_type == IBV_TRANSPORT_IWARP;
}

/// Returns whether the device is an iWARP device.
[[nodiscard]] inline bool is_iwarp(const context& device) { return is_iwarp(*device.native()); }

}  // namespace verbena::inline VERBENA_ABI::detail
