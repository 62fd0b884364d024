// SPDX-License-Identifier: MIT
// A field of a remote view is a member of the view's type.
// expect: no match|no matching
#include "verbena/memory/remote_view.hpp"

struct header {
  int length;
};
struct footer {
  int length;
};

verbena::remote_region use(const verbena::remote_view<header>& there) {
#ifdef VERBENA_BAD
  return there.field(&footer::length).region();
#else
  return there.field(&header::length).region();
#endif
}
