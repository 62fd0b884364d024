// SPDX-License-Identifier: MIT
#include "src/verbs/descriptor.hpp"

#include <fcntl.h>

#include <cerrno>

namespace verbena::inline VERBENA_ABI::detail {

int make_non_blocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  if ((flags & O_NONBLOCK) != 0) return 0;
  return ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : errno;
}

}  // namespace verbena::inline VERBENA_ABI::detail
