// SPDX-License-Identifier: MIT
// The type of a remote view has standard layout and is trivially copyable.
// expect: constraints? (failure|not satisfied)|is_standard_layout
#include "verbena/memory/remote_view.hpp"

#ifdef VERBENA_BAD
struct header {
  virtual ~header() = default;
  int length;
};
#else
struct header {
  int length;
};
#endif

std::optional<verbena::remote_view<header>> use(const verbena::remote_region& there) {
  return verbena::remote_view<header>::of(there);
}
