// SPDX-License-Identifier: MIT
#include "src/base/quiet_thread.hpp"

#include <signal.h>

#include <initializer_list>

namespace verbena::inline VERBENA_ABI {

int detail::start_quiet_thread(pthread_t& out, void* (*run)(void*), void* argument,
                               const char* name) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // If the signal of a fault is blocked, the kernel ends the process without calling the handler.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits the mask
  const int failed = pthread_create(&out, nullptr, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed == 0) pthread_setname_np(out, name);
  return failed;
}

}  // namespace verbena::inline VERBENA_ABI
