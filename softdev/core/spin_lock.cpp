// SPDX-License-Identifier: MIT
#include "softdev/core/spin_lock.hpp"

#include <thread>

namespace verbena::softdev {

void spin_lock::lock_slowly() noexcept {
  for (unsigned attempt = 0; !try_lock(); ++attempt) {
    if (attempt < 64) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace verbena::softdev
