// SPDX-License-Identifier: MIT
// Waiting for another thread that is inside a critical section of nanoseconds.
#pragma once

#include <thread>

namespace verbena::softdev {

/// Waits in steps: pauses at first, then yields the processor, which the other thread may need to
/// run. Threads: thread-bound.
class spin_wait {
 public:
  void once() noexcept {
    if (turns_ < 64) {
      ++turns_;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else {
      std::this_thread::yield();
    }
  }

 private:
  unsigned turns_ = 0;
};

}  // namespace verbena::softdev
