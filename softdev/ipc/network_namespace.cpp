// SPDX-License-Identifier: MIT
#include "softdev/ipc/network_namespace.hpp"

#include <sys/stat.h>

namespace verbena::softdev {

std::uint64_t find_network_namespace() noexcept {
  struct stat found{};
  return ::stat("/proc/thread-self/ns/net", &found) == 0 ? found.st_ino : 0;
}

}  // namespace verbena::softdev
