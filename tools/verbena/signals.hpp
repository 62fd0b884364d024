// SPDX-License-Identifier: MIT
// The signals that a command waits for.
#pragma once

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace verbena::tool {

/// A signal that has arrived. Threads: immutable value.
struct arrived_signal {
  int number = 0;
  /// Whether all processes of the group of this process got it too, as for the keys of a terminal.
  bool reached_group = false;
};

/// Returns whether all processes of the group got a signal: the kernel sends those of a terminal to
/// its foreground group, except SIGHUP, which only the leader of the session gets while it runs.
/// A signal of kill(2) counts as sent to this process only. Async-signal-safe.
[[nodiscard]] inline bool reached_group(const siginfo_t& signal) noexcept {
  return signal.si_code == SI_KERNEL && (signal.si_signo != SIGHUP || ::getsid(0) != ::getpid());
}

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

  /// Waits for one of the signals.
  [[nodiscard]] arrived_signal wait() const {
    siginfo_t got{};
    while (::sigwaitinfo(&awaited_, &got) < 0) {
    }
    return {.number = got.si_signo, .reached_group = reached_group(got)};
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
