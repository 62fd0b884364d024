// SPDX-License-Identifier: MIT
#include "verbena/base/fd.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace verbena::inline VERBENA_ABI {

void unique_fd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

result<bool> wait_for_fd(int fd, short events, deadline until) {
  while (true) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, until.poll_timeout_ms());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return error::from_errno(errno, "poll");
    if (ready == 0 && until.expired()) return false;
  }
}

}  // namespace verbena::inline VERBENA_ABI
