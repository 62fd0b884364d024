// SPDX-License-Identifier: MIT
// Counts the allocations of a thread, and makes them fail: allocations.cpp replaces operator new.
#pragma once

#include <cstddef>

#include "verbena/base/sanitizers.hpp"

#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)
#define VERBENA_COUNTS_ALLOCATIONS

namespace verbena::test {
inline thread_local std::size_t allocations = 0;
inline thread_local bool fails_allocations = false;
inline thread_local std::size_t failing_allocation = 0;  // of the count; 0: none
}  // namespace verbena::test

#endif
