// SPDX-License-Identifier: MIT
// A sink cannot be copied: posting it twice would write its memory twice.
// expect-gcc: use of deleted function
// expect-clang: call to deleted constructor
// parity: ibverbs-rs-10
#include "verbena/channel/sink.hpp"

verbena::sink use(verbena::sink& mine) {
#ifdef VERBENA_BAD
  verbena::sink other = mine;
#else
  verbena::sink other = std::move(mine);
#endif
  return other;
}
