// SPDX-License-Identifier: MIT
// Threads that the library starts in the user's process.
#pragma once

#include <pthread.h>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Starts a thread with all signals blocked, so that signal handlers run on the user's threads. The
/// signals of faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL) are not blocked.
///
/// Returns 0 or the errno of pthread_create(3). The caller joins or detaches `out`. Allocates.
/// `name` has at most 15 bytes.
[[nodiscard]] int start_quiet_thread(pthread_t& out, void* (*run)(void*), void* argument,
                                     const char* name) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
