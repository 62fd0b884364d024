// SPDX-License-Identifier: MIT
// A post can be refused by the device; whoever ignores that waits for a completion that never
// comes.
// expect: a post can fail: check it or call value\(\)
#include "verbena/base/post_status.hpp"

verbena::post_status post();

void use() {
#ifdef VERBENA_BAD
  post();
#else
  post().value();
#endif
}
