// SPDX-License-Identifier: MIT
// A post can fail: its status cannot be ignored.
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
