// SPDX-License-Identifier: MIT
#include "softdev/ipc/eventfd.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace verbena::softdev {

result<unique_fd> create_eventfd() {
  unique_fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return error::from_errno(errno, "eventfd");
  return fd;
}

bool is_eventfd(int fd) noexcept {
  std::array<char, 48> path{};
  std::array<char, 32> target{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(path.data(), target.data(), target.size());
  if (length >= 0) {
    const std::string_view name(target.data(), static_cast<std::size_t>(length));
    if (name != "anon_inode:[eventfd]") return false;
  } else {
    // Without /proc: at least an anonymous inode, which is neither a file, a socket nor a device.
    struct stat info{};
    if (::fstat(fd, &info) != 0 || (info.st_mode & S_IFMT) != 0) return false;
  }
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

void signal_eventfd(int fd) noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that the count is at its maximum: the sleeper is awake in any case.
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void drain_eventfd(int fd) noexcept {
  std::uint64_t count = 0;
  while (::read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace verbena::softdev
