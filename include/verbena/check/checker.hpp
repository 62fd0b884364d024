// SPDX-License-Identifier: MIT
// The checker of checked builds, which tracks requests in flight and their memory. Programs need no
// calls to use it; these functions query and configure it. Other builds contain no checker, and the
// functions have no effect. docs/guide/checker.md describes the mistakes that the checker detects.
#pragma once

#include <cstddef>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::check {

#ifdef VERBENA_CHECKED

/// Whether this build has the checker.
inline constexpr bool enabled = true;

/// Returns the number of requests of this process that are in flight: neither their completion nor
/// the completion of a later request of their send queue has been polled. Thread-safe.
[[nodiscard]] std::size_t requests_in_flight() noexcept;

/// Switches the checker off for the rest of the process, like the environment variable
/// `VERBENA_CHECKER=off`. Use it in programs that violate rules to observe the effect. The checker
/// still tracks objects that exist already. Thread-safe.
void switch_off() noexcept;

/// Notifies the checker that the program also posts requests of a queue pair or shared receive
/// queue through the C API. The checker then accepts completions that match no request in flight.
/// `native_queue` is native() of the queue. Thread-safe.
void posted_elsewhere(const void* native_queue);

#else

/// Whether this build has the checker.
inline constexpr bool enabled = false;

/// Returns 0 in this build. Thread-safe.
[[nodiscard]] inline std::size_t requests_in_flight() noexcept { return 0; }

/// Has no effect in this build. Thread-safe.
inline void switch_off() noexcept {}

/// Has no effect in this build. Thread-safe.
inline void posted_elsewhere(const void* /*native_queue*/) {}

#endif

}  // namespace verbena::inline VERBENA_ABI::check
