// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "verbena/base/result.hpp"
#include "verbena/net/rail.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Errors of `call`: `invalid_argument` for no rails or more than `max_rails`.
[[nodiscard]] result<void> check_rails(const char* call, std::span<const rail_port> rails);
/// Errors of `call`: also `invalid_argument` for options of 0.
[[nodiscard]] result<void> check_options(const char* call, const rail_options& options);

/// Returns whether the port of a rail is active. Queries the device.
[[nodiscard]] bool is_port_active(const rail_port& of);

}  // namespace verbena::inline VERBENA_ABI::net::detail
