// SPDX-License-Identifier: MIT
// load() of exported memory reads a word of 4 or 8 bytes.
// expect: no match|no matching
#include "verbena/memory/exported_memory.hpp"

struct slot {
  std::uint64_t version;
  std::uint16_t length;
};

std::uint64_t use(const verbena::exported_memory<slot>& window) {
#ifdef VERBENA_BAD
  return window.load(&slot::length);
#else
  return window.load(&slot::version);
#endif
}
