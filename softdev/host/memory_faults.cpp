// SPDX-License-Identifier: MIT
// Everything that the handler calls is async-signal-safe.
#include "softdev/host/memory_faults.hpp"

#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#include "softdev/core/copy.hpp"
#include "softdev/host/settings.hpp"

namespace verbena::softdev {
namespace {

// Written before the handler that reads them is installed.
struct sigaction previous_segv;
struct sigaction previous_bus;

struct sigaction& previous_of(int number) noexcept {
  return number == SIGSEGV ? previous_segv : previous_bus;
}

bool is_function(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

/// Continues after a failed access of the device. Returns false if the device did not cause the
/// fault.
bool continue_after(ucontext_t& state) noexcept {
#if defined(__x86_64__)
  auto& instruction = state.uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  auto& instruction = state.uc_mcontext.pc;
#else
  static_cast<void>(state);
  std::uintptr_t instruction = 0;
#endif
  const std::uintptr_t next = continuation_of(static_cast<std::uintptr_t>(instruction));
  if (next == 0) return false;
  instruction = static_cast<std::remove_reference_t<decltype(instruction)>>(next);
  return true;
}

void handle(int number, siginfo_t* info, void* context) {
  const bool from_kernel = info->si_code > 0;
  if (from_kernel && continue_after(*static_cast<ucontext_t*>(context))) return;
  const struct sigaction before = previous_of(number);
  if (!is_function(before)) {
    if (before.sa_handler == SIG_IGN && !from_kernel) return;
    // The faulting instruction is executed once more, now with the default action; a signal that a
    // process sent is sent again, and arrives on return.
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
    if (!from_kernel) ::raise(number);
    return;
  }
  if ((before.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
  }
  if ((before.sa_flags & SA_SIGINFO) != 0)
    before.sa_sigaction(number, info, context);
  else
    before.sa_handler(number);
}

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &handle;
}

void install(int number) noexcept {
  struct sigaction& before = previous_of(number);
  struct sigaction now;
  if (sigaction(number, nullptr, &now) != 0) return;
  if (is_ours(now)) return;
  before = now;
  struct sigaction action{};
  action.sa_sigaction = &handle;
  // A previous handler runs with its own mask and on its own stack.
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  if (is_function(before)) {
    action.sa_mask = before.sa_mask;
    action.sa_flags |= before.sa_flags & (SA_ONSTACK | SA_NODEFER);
  } else {
    action.sa_flags |= SA_ONSTACK;
  }
  sigaction(number, &action, nullptr);
}

}  // namespace

void install_memory_fault_handler() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
  install(SIGSEGV);
  install(SIGBUS);
#endif
}

void catch_memory_faults() noexcept {
  static const bool done = [] {
    if (current_settings().faults == fault_policy::failed_request) install_memory_fault_handler();
    return true;
  }();
  static_cast<void>(done);
}

bool memory_faults_are_caught() noexcept {
  struct sigaction now;
  // Checking SIGSEGV is enough: a program that replaces one of the handlers replaces this one.
  if (sigaction(SIGSEGV, nullptr, &now) != 0 || !is_ours(now)) return false;
  sigset_t blocked;
  return pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 &&
         sigismember(&blocked, SIGSEGV) == 0 && sigismember(&blocked, SIGBUS) == 0;
}

}  // namespace verbena::softdev
