// SPDX-License-Identifier: MIT
#include "softdev/ipc/process_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "softdev/ipc/cancellation.hpp"

namespace verbena::softdev {

process_watch::process_watch(pid_t pid) noexcept {
  if (pid <= 0) return;
  fd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
  watchable_ = fd_.get() >= 0 || errno == ESRCH;
}

bool process_watch::exited() const noexcept {
  if (!watchable_) return false;
  if (!fd_) return true;
  const without_cancellation disabled;
  pollfd poll{fd_.get(), POLLIN, 0};
  return ::poll(&poll, 1, 0) == 1;
}

bool is_stopped(pid_t pid) noexcept {
  if (pid <= 0) return false;
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
  const unique_fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  std::array<char, 256> text{};
  const ssize_t length = ::read(file.get(), text.data(), text.size());
  if (length <= 0) return false;
  // "pid (name) S …": the name may hold any character, the state follows its last parenthesis.
  const std::string_view line(text.data(), static_cast<std::size_t>(length));
  const std::size_t end = line.rfind(')');
  if (end == std::string_view::npos || end + 2 >= line.size()) return false;
  return line[end + 2] == 'T' || line[end + 2] == 't';
}

}  // namespace verbena::softdev
