// SPDX-License-Identifier: MIT
// Checked builds: what a thread has open that it may open once only, as a batch of an extended
// queue or a pass over a completion queue, and where it opened it. Other builds have none of this.
#pragma once

#include <cstdint>

#include "verbena/base/call_site.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

#ifdef VERBENA_CHECKED

/// Notes that this thread opened `object` at `where`. Stops with `rule` and both places when it has
/// it open already. Allocates when a thread has more open than ever before. Thread-safe.
void open_alone(const void* object, const char* rule, call_site where);
/// Stops with `rule` and both places when this thread has `object` open. Thread-safe.
void check_not_open(const void* object, const char* rule, call_site where);
/// Forgets it. Thread-safe.
void end_alone(const void* object) noexcept;

/// What a thread has open may go in steps, of which the first is 1. Goes to the next. Thread-safe.
void next_step(const void* object) noexcept;
/// The step that it is at; 0 when this thread does not have it open. Thread-safe.
[[nodiscard]] std::uint64_t current_step(const void* object) noexcept;
/// Stops with `rule` unless `object` is open and at `step`; says where it was opened. Thread-safe.
void check_step(const void* object, std::uint64_t step, const char* rule, call_site where);

#else

[[gnu::always_inline]] inline void open_alone(const void*, const char*, call_site) noexcept {}
[[gnu::always_inline]] inline void check_not_open(const void*, const char*, call_site) noexcept {}
[[gnu::always_inline]] inline void end_alone(const void*) noexcept {}
[[gnu::always_inline]] inline void next_step(const void*) noexcept {}
[[gnu::always_inline]] inline std::uint64_t current_step(const void*) noexcept { return 0; }
[[gnu::always_inline]] inline void check_step(const void*, std::uint64_t, const char*,
                                              call_site) noexcept {}

#endif

}  // namespace verbena::inline VERBENA_ABI::detail
