// SPDX-License-Identifier: MIT
// Cancellation of threads (pthread_cancel(3)). A cancelled thread is unwound from a system call,
// such as write(2) or close(2). Most functions of soft0 are noexcept and cannot be left in this
// way, so exported functions disable cancellation, and only the calls that wait for events permit
// it. The functions of the data path disable it only where they make a system call.
#pragma once

namespace verbena::softdev {

/// While it exists, the calling thread is not cancelled. May be nested.
/// Threads: thread-bound.
class without_cancellation {
 public:
  without_cancellation() noexcept;
  ~without_cancellation();
  without_cancellation(const without_cancellation&) = delete;
  without_cancellation& operator=(const without_cancellation&) = delete;

 private:
  bool is_outermost_;
};

/// While it exists, the calling thread has the cancellation state that the program has set.
/// Threads: thread-bound.
class with_cancellation {
 public:
  with_cancellation() noexcept;
  ~with_cancellation();
  with_cancellation(const with_cancellation&) = delete;
  with_cancellation& operator=(const with_cancellation&) = delete;

 private:
  int before_;
};

}  // namespace verbena::softdev
