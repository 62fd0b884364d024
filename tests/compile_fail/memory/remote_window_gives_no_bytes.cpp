// SPDX-License-Identifier: MIT
// Memory that a peer may write is copied out, never referred to.
// expect: has no member named|no member named
#include "verbena/memory/remote_window.hpp"

struct slot {
  std::uint64_t version;
};

std::uint64_t use(const verbena::remote_window<slot>& window) {
#ifdef VERBENA_BAD
  return std::to_integer<std::uint64_t>(window.bytes()[0]);
#else
  return window.copy_out().version;
#endif
}
