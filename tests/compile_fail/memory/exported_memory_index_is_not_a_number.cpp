// SPDX-License-Identifier: MIT
// The value and the index of store() cannot be confused: the index has a type of its own.
// expect-gcc: no matching function
// expect-clang: no matching member function|no viable conversion
#include "verbena/memory/exported_memory.hpp"

void use(verbena::exported_memory<int>& window) {
#ifdef VERBENA_BAD
  window.store(3, 42);
#else
  window.store(42, verbena::element_index(3));
#endif
}
