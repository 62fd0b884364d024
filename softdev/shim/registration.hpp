// SPDX-License-Identifier: MIT
// What all kinds of memory regions of the C interface share.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/shim/objects.hpp"

namespace verbena::softdev {

/// The errno that refuses these rights (ibv_access_flags), or 0.
[[nodiscard]] int check_access(ibv_context& context, unsigned access) noexcept;

/// Registers what was checked and makes its object, a child of `pd`; nullptr and errno when that
/// fails. Allocates.
[[nodiscard]] mr_object* make_region(ibv_pd* pd, const memory_region& described);

}  // namespace verbena::softdev
