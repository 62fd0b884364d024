// SPDX-License-Identifier: MIT
// Starts a process of `killed_process.cpp`, stops it at its system calls, and kills it.
#pragma once

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include "tests/unit/channel/channel_side.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::test {

enum class tracing : std::uint8_t { no, yes };

/// A process of `killed_process.cpp`. Only the thread that created the object can trace it.
class killed_process {
 public:
  /// `use` is operations or messages.
  killed_process(const char* use, connect_method way, connect_side side, std::uint16_t port,
                 tracing traced) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    output_.reset(ends[0]);
    const unique_fd theirs(ends[1]);
    const std::string number = std::to_string(port);
    const std::array<const char*, 7> words{VERBENA_CHANNEL_KILLED_PROCESS,
                                           use,
                                           way == connect_method::stream ? "stream" : "manager",
                                           side == connect_side::active ? "active" : "passive",
                                           number.c_str(),
                                           traced == tracing::yes ? "stopping" : nullptr,
                                           nullptr};
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(theirs.get(), STDOUT_FILENO);
    if (traced == tracing::yes && ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(98);
    ::execv(words[0], const_cast<char* const*>(words.data()));
    ::_exit(99);
  }
  killed_process(const killed_process&) = delete;
  killed_process& operator=(const killed_process&) = delete;
  ~killed_process() { kill(); }

  /// Returns the port of its listener, or `nullopt` if it has exited. May be called on any thread.
  [[nodiscard]] std::optional<std::uint16_t> port() const {
    std::string text;
    for (char each = 0; ::read(output_.get(), &each, 1) == 1;) {
      if (each == '\n') return static_cast<std::uint16_t>(std::stoi(text));
      text += each;
    }
    return std::nullopt;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// Continues the process to its first stop; returns whether it stopped.
  [[nodiscard]] bool begin() {
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) return false;  // execv
    ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int signal = 0; resume(PTRACE_CONT, signal, status);) {
      if (WSTOPSIG(status) == SIGSTOP) return true;
      signal = WSTOPSIG(status);
    }
    return false;
  }
  /// Continues the process until it has entered and left `most` system calls, or is connected.
  /// Returns the number of calls.
  int step(int most) {
    int status = 0;
    int signal = 0;
    for (int steps = 0; steps < most;) {
      if (!resume(PTRACE_SYSCALL, signal, status) || WSTOPSIG(status) == SIGSTOP) return steps;
      signal = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
      if (signal == 0) ++steps;
    }
    return most;
  }

 private:
  bool resume(int how, int signal, int& status) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): ptrace is one
    if (::ptrace(static_cast<__ptrace_request>(how), pid_, nullptr, signal) != 0) return false;
    if (::waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status)) return true;
    pid_ = 0;  // it has exited
    return false;
  }

  pid_t pid_ = 0;
  unique_fd output_;
};

}  // namespace verbena::test
