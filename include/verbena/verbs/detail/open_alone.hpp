// SPDX-License-Identifier: MIT
// Checked builds: what a thread has open that it may open once only, as a batch of an extended
// queue or a pass over a completion queue, and where it opened it. Other builds have none of this.
#pragma once

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
/// Stops with `rule` and both places unless what was made at `earlier` is still `there`.
/// Thread-safe.
void check_in_time(bool there, call_site earlier, const char* rule, call_site where);

#else

[[gnu::always_inline]] inline void open_alone(const void*, const char*, call_site) noexcept {}
[[gnu::always_inline]] inline void check_not_open(const void*, const char*, call_site) noexcept {}
[[gnu::always_inline]] inline void end_alone(const void*) noexcept {}

#endif

}  // namespace verbena::inline VERBENA_ABI::detail
