// SPDX-License-Identifier: MIT
// A buffer has one owner: it can be moved, not copied.
// expect-gcc: use of deleted function
// expect-clang: call to deleted constructor
#include "verbena/memory/buffer.hpp"

verbena::buffer use(verbena::buffer& mine) {
#ifdef VERBENA_BAD
  verbena::buffer other = mine;
#else
  verbena::buffer other = std::move(mine);
#endif
  return other;
}
