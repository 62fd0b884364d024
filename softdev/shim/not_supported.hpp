// SPDX-License-Identifier: MIT
// What the device does not support: not_supported.inc, at run time.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/abi/failure.hpp"

namespace verbena::softdev {

/// Puts the functions of not_supported.inc into a context that is being made.
void fill_not_supported(verbs_context& context) noexcept;

/// True for transports that exist and that the device does not have.
[[nodiscard]] bool is_unsupported_transport(ibv_qp_type type) noexcept;
/// True when `flags` (ibv_access_flags) asks for something that exists and that the device lacks.
[[nodiscard]] bool has_unsupported_access(unsigned flags) noexcept;

}  // namespace verbena::softdev
