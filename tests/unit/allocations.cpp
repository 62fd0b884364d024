// SPDX-License-Identifier: MIT
#include "tests/unit/allocations.hpp"

#include <cstdlib>
#include <new>

#ifdef VERBENA_COUNTS_ALLOCATIONS
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
