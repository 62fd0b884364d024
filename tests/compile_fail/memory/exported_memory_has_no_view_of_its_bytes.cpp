// SPDX-License-Identifier: MIT
// Memory that a peer may write has no reference or view: its bytes can only be copied.
// expect: has no member named|no member named
#include "verbena/memory/exported_memory.hpp"

struct slot {
  std::uint64_t version;
};

std::uint64_t use(const verbena::exported_memory<slot>& window) {
#ifdef VERBENA_BAD
  return std::to_integer<std::uint64_t>(window.bytes()[0]);
#else
  return window.copy_out().version;
#endif
}
