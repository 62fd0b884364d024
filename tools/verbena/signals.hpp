// SPDX-License-Identifier: MIT
// The signals that a command waits for.
#pragma once

#include <sys/signalfd.h>

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace verbena::tool {

/// Blocks signals for the process; they are delivered by wait(). Create it before other threads.
/// Threads: one thread at a time.
class awaited_signals {
 public:
  awaited_signals(std::initializer_list<int> which) {
    ::sigemptyset(&awaited_);
    for (const int each : which) ::sigaddset(&awaited_, each);
    // If this program was started with SIGCHLD ignored, no such signal would arrive.
    if (::sigismember(&awaited_, SIGCHLD) == 1) ::signal(SIGCHLD, SIG_DFL);
    ::sigprocmask(SIG_BLOCK, &awaited_, &before_);
  }
  awaited_signals(const awaited_signals&) = delete;
  awaited_signals& operator=(const awaited_signals&) = delete;
  /// Discards the signals that have arrived, for example SIGPIPE of a last write.
  ~awaited_signals() {
    const timespec now{};
    while (::sigtimedwait(&awaited_, nullptr, &now) > 0) {
    }
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  /// Waits for one of the signals, and returns its number.
  [[nodiscard]] int wait() const {
    int got = 0;
    while (::sigwait(&awaited_, &got) != 0) {
    }
    return got;
  }
  /// Returns a new signalfd(2) for the signals, which does not block; -1 and errno if it fails.
  [[nodiscard]] int open_descriptor() const noexcept {
    return ::signalfd(-1, &awaited_, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  /// Returns the signal mask before construction.
  [[nodiscard]] const sigset_t& before() const noexcept { return before_; }

 private:
  sigset_t awaited_{};
  sigset_t before_{};
};

}  // namespace verbena::tool
