// SPDX-License-Identifier: MIT
#include "softdev/ipc/fork_guard.hpp"

#include <sys/mman.h>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

fork_guard::fork_guard() {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  VERBENA_ASSERT(page != MAP_FAILED && ::madvise(page, 4096, MADV_WIPEONFORK) == 0,
                 "the software device needs MADV_WIPEONFORK (Linux 4.14)");
  word_ = static_cast<volatile std::uint64_t*>(page);
  *word_ = 1;
}

fork_guard::~fork_guard() { ::munmap(const_cast<std::uint64_t*>(word_), 4096); }

}  // namespace verbena::softdev
