// SPDX-License-Identifier: MIT
// Allocations of this program fail on request: malloc and what is like it, of all libraries.
#pragma once

#include <cstdint>

#include "verbena/base/sanitizers.hpp"

// Sanitizers have their own allocators.
#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER) && defined(__GLIBC__)
#define VERBENA_FAILS_ALLOCATIONS
#endif

namespace verbena::softdev::testing {

/// Makes the allocation `last` (from 1) from now on fail with ENOMEM, in whichever thread it is.
void fail_allocation(std::uint32_t last);
/// Permits all again. Returns the number of allocations since fail_allocation.
std::uint32_t permit_allocations();

}  // namespace verbena::softdev::testing
