// SPDX-License-Identifier: MIT
// Waiting for another thread that is inside a section of nanoseconds.
#pragma once

#include <thread>

namespace verbena::softdev {

/// One wait: pauses at first, then yields the processor, on which the other thread may have to run.
/// Threads: thread-bound.
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
