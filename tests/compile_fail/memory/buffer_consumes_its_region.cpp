// SPDX-License-Identifier: MIT
// A buffer takes ownership of its region, which is passed by std::move.
// expect: cannot bind (rvalue reference|to lvalue)
#include "verbena/memory/buffer.hpp"

verbena::buffer use(verbena::memory_region& region) {
#ifdef VERBENA_BAD
  return verbena::buffer::of(region);
#else
  return verbena::buffer::of(std::move(region));
#endif
}
