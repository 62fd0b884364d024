// SPDX-License-Identifier: MIT
// Threads of ours in programs of others.
#pragma once

#include <pthread.h>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Starts a thread with all signals blocked, since those are the program's. 0, or the errno of
/// pthread_create(3); the caller joins or detaches `out`. Allocates. `name`: at most 15 bytes.
[[nodiscard]] int start_quiet_thread(pthread_t& out, void* (*run)(void*), void* argument,
                                     const char* name) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
