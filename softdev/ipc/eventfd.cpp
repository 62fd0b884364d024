// SPDX-License-Identifier: MIT
#include "softdev/ipc/eventfd.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "softdev/ipc/cancellation.hpp"

namespace verbena::softdev {

result<unique_fd> create_eventfd(when_empty reads) {
  unique_fd fd(::eventfd(0, EFD_CLOEXEC | (reads == when_empty::fail ? EFD_NONBLOCK : 0)));
  if (!fd) return error::from_errno(errno, "eventfd");
  return fd;
}

void signal_eventfd(int fd) noexcept {
  const without_cancellation disabled;
  const std::uint64_t one = 1;
  // EAGAIN means that the count is at its maximum: the eventfd is readable anyway.
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void drain_eventfd(int fd) noexcept {
  const without_cancellation disabled;
  std::uint64_t count = 0;
  while (::read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace verbena::softdev
