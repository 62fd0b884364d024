// SPDX-License-Identifier: MIT
#include "softdev/path/liveness.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

process_watch::process_watch(pid_t pid) noexcept {
  if (pid <= 0) return;
  fd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
  watchable_ = fd_.get() >= 0 || errno == ESRCH;
}

bool process_watch::exited() const noexcept {
  if (!watchable_) return false;
  if (!fd_) return true;
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

fork_guard::fork_guard() {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  VERBENA_ASSERT(page != MAP_FAILED && ::madvise(page, 4096, MADV_WIPEONFORK) == 0,
                 "the software device needs MADV_WIPEONFORK (Linux 4.14)");
  word_ = static_cast<volatile std::uint64_t*>(page);
  *word_ = 1;
}

fork_guard::~fork_guard() { ::munmap(const_cast<std::uint64_t*>(word_), 4096); }

}  // namespace verbena::softdev
