// SPDX-License-Identifier: MIT
// The run-time checker of checked builds: what is on its way to a device, and which memory it
// names. It works by itself; here is what a program may ask it or tell it. Other builds have no
// checker, and these functions do nothing there. docs/guide/checker.md says what it finds.
#pragma once

#include <cstddef>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::check {

#ifdef VERBENA_CHECKED

/// Whether this build has the checker.
inline constexpr bool enabled = true;

/// How many requests of this process were posted and are not yet known to be complete: their
/// completion, or that of a later request of their send queue, was not polled. Thread-safe.
[[nodiscard]] std::size_t requests_in_flight() noexcept;

/// Switches the checker off for the rest of the process, as `VERBENA_CHECKER=off` in the
/// environment does: for programs that break its rules to see what a device does. Objects that
/// exist already stay watched. Thread-safe.
void switch_off() noexcept;

/// Notifies the checker that requests of a queue pair, or of a shared receive queue, are also
/// posted by functions of the C API: completions of requests that it does not know are then no
/// mistake. `native_queue` is what native() of the queue gave. Thread-safe.
void posted_elsewhere(const void* native_queue);

#else

/// Whether this build has the checker.
inline constexpr bool enabled = false;

/// This build does not count them. Thread-safe.
[[nodiscard]] inline std::size_t requests_in_flight() noexcept { return 0; }

/// Nothing, in this build. Thread-safe.
inline void switch_off() noexcept {}

/// Nothing, in this build. Thread-safe.
inline void posted_elsewhere(const void* /*native_queue*/) {}

#endif

}  // namespace verbena::inline VERBENA_ABI::check
