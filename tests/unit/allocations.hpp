// SPDX-License-Identifier: MIT
// Replaces operator new to count the allocations of a thread, and to make them fail. Included by
// one source of a program.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#include "verbena/base/sanitizers.hpp"

#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)
#define VERBENA_COUNTS_ALLOCATIONS

namespace verbena::test {
inline thread_local std::size_t allocations = 0;
inline thread_local bool fails_allocations = false;
inline thread_local std::size_t failing_allocation = 0;  // of the count; 0: none
}  // namespace verbena::test

// Not inline: g++ 12 reports a mismatch where it inlines only one of the two into a caller.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++verbena::test::allocations;
  const bool fails = verbena::test::fails_allocations ||
                     verbena::test::failing_allocation == verbena::test::allocations;
  if (void* made = fails ? nullptr : std::malloc(size); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
