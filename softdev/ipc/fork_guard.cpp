// SPDX-License-Identifier: MIT
#include "softdev/ipc/fork_guard.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace verbena::softdev {

fork_guard::fork_guard() {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "soft0: mmap");
  if (::madvise(page, 4096, MADV_WIPEONFORK) != 0) {
    const int code = errno;
    ::munmap(page, 4096);
    throw std::system_error(code, std::generic_category(),
                            "soft0: madvise: the device needs MADV_WIPEONFORK (Linux 4.14)");
  }
  word_ = static_cast<volatile std::uint64_t*>(page);
  *word_ = 1;
}

fork_guard::~fork_guard() { ::munmap(const_cast<std::uint64_t*>(word_), 4096); }

}  // namespace verbena::softdev
