// SPDX-License-Identifier: MIT
// Functions for all kinds of memory regions of the C interface.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/shim/objects.hpp"

namespace verbena::softdev {

/// Checks access flags (ibv_access_flags). Returns 0 or an errno.
[[nodiscard]] int check_access(ibv_context& context, unsigned access) noexcept;

/// Registers a checked region and creates its object, a child of `pd`. Returns nullptr and errno on
/// failure. Allocates.
[[nodiscard]] mr_object* make_region(ibv_pd* pd, const memory_region& described);

}  // namespace verbena::softdev
