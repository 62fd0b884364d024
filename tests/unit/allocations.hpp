// SPDX-License-Identifier: MIT
// Replaces operator new to count the allocations of a thread. Included by one source of a program.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#include "verbena/base/sanitizers.hpp"

#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)
#define VERBENA_COUNTS_ALLOCATIONS

namespace verbena::test {
inline thread_local std::size_t allocations = 0;
}  // namespace verbena::test

// Not inline: g++ 12 reports a mismatch where it inlines only one of the two into a caller.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++verbena::test::allocations;
  if (void* made = std::malloc(size); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
