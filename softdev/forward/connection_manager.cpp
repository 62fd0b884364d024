// SPDX-License-Identifier: MIT
#include "softdev/forward/connection_manager.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "softdev/forward/engine.hpp"
#include "softdev/forward/message.hpp"
#include "softdev/forward/real.hpp"

namespace verbena::forward {
namespace {

constinit connection_manager chosen;
pthread_once_t once = PTHREAD_ONCE_INIT;

// Returns whether the kernel has an adapter of any kind.
bool kernel_has_adapters() noexcept {
  // A system call, because another forwarder of the process answers opendir(3) with soft0's
  // directory.
  const auto opened = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, "/sys/class/infiniband", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const folder = opened >= 0 ? fdopendir(opened) : nullptr;
  if (folder == nullptr) return false;
  bool found = false;
  while (!found) {
    const dirent* const entry = readdir(folder);  // NOLINT(concurrency-mt-unsafe): our own stream
    if (entry == nullptr) break;
    found = entry->d_name[0] != '.';
  }
  closedir(folder);
  return found;
}

bool kernel_manager_works() noexcept {
  if (!kernel_has_adapters()) return false;
  const int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    warn_once(
        warning::no_kernel_cm,
        "the connection manager is soft0's, because /dev/infiniband/rdma_cm cannot be opened: ",
        strerrorname_np(errno));
    return false;
  }
  close(fd);
  return true;
}

bool wants_soft() noexcept {
  switch (wanted_listing()) {
    case listing::off:
      return false;
    case listing::only:
      return true;
    case listing::on:
      break;
  }
  return !kernel_manager_works();
}

void choose() noexcept {
  const int saved = errno;
  chosen.soft = wants_soft();
  chosen.library = chosen.soft ? soft_engine().library : find_real_rdmacm();
  errno = saved;
}

}  // namespace

const connection_manager& chosen_manager() noexcept {
  pthread_once(&once, &choose);
  return chosen;
}

plain_function manager_function(std::atomic<plain_function>& known, const char* name) noexcept {
  if (const auto found = known.load(std::memory_order_acquire)) return found;
  const connection_manager& manager = chosen_manager();
  if (manager.library == nullptr) return nullptr;
  const auto found = reinterpret_cast<plain_function>(dlsym(manager.library, name));
  known.store(found, std::memory_order_release);
  return found;
}

}  // namespace verbena::forward
