// SPDX-License-Identifier: MIT
// What is read at once from memory that a peer may write is a word of 4 or 8 bytes.
// expect: no match|no matching
#include "verbena/memory/remote_window.hpp"

struct slot {
  std::uint64_t version;
  std::uint16_t length;
};

std::uint64_t use(const verbena::remote_window<slot>& window) {
#ifdef VERBENA_BAD
  return window.load(&slot::length);
#else
  return window.load(&slot::version);
#endif
}
