// SPDX-License-Identifier: MIT
// Descriptor, offset, length and address of a dma-buf are named members, not a list of numbers.
// expect-gcc: no matching function|too many arguments
// expect-clang: too many arguments|no matching
#include "verbena/verbs/protection_domain.hpp"

verbena::result<verbena::memory_region> use(const verbena::protection_domain& pd, int fd) {
  const auto access = verbena::access::local_write;
#ifdef VERBENA_BAD
  return pd.register_dmabuf(fd, 4096, 0, 0, access);
#else
  return pd.register_dmabuf({.fd = fd, .offset = 0, .length = 4096}, access);
#endif
}
