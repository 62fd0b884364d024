// SPDX-License-Identifier: MIT
// A file descriptor has one owner and cannot be copied.
// expect-gcc: use of deleted function
// expect-clang: call to implicitly-deleted copy constructor
#include "verbena/base/fd.hpp"

int use(verbena::unique_fd& fd) {
#ifdef VERBENA_BAD
  const verbena::unique_fd second = fd;
#else
  const verbena::unique_fd second = std::move(fd);
#endif
  return second.get();
}
