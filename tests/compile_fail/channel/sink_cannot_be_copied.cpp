// SPDX-License-Identifier: MIT
// A sink has one owner: what is posted twice would be written twice.
// expect-gcc: use of deleted function
// expect-clang: call to deleted constructor
#include "verbena/channel/sink.hpp"

verbena::sink use(verbena::sink& mine) {
#ifdef VERBENA_BAD
  verbena::sink other = mine;
#else
  verbena::sink other = std::move(mine);
#endif
  return other;
}
