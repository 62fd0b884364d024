// SPDX-License-Identifier: MIT
// In checked builds, detects that a thread opens an object twice, such as a batch of an extended
// queue or a poll of an extended completion queue. In other builds the functions have no effect.
#pragma once

#include "verbena/base/call_site.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

#ifdef VERBENA_CHECKED

/// Records that this thread opened `object` at `where`. If `object` is open already, stops the
/// program with `rule` and both source locations. May allocate. Thread-safe.
void begin_exclusive(const void* object, const char* rule, call_site where);
/// If this thread has `object` open, stops the program with `rule` and both source locations.
/// Thread-safe.
void check_not_open(const void* object, const char* rule, call_site where);
/// Records that this thread closed `object`. Thread-safe.
void end_exclusive(const void* object) noexcept;
/// Stops the program with `rule` and both source locations if `valid` is false. `earlier` is the
/// location at which the object was created. Thread-safe.
void check_valid(bool valid, call_site earlier, const char* rule, call_site where);

#else

[[gnu::always_inline]] inline void begin_exclusive(const void*, const char*, call_site) noexcept {}
[[gnu::always_inline]] inline void check_not_open(const void*, const char*, call_site) noexcept {}
[[gnu::always_inline]] inline void end_exclusive(const void*) noexcept {}

#endif

}  // namespace verbena::inline VERBENA_ABI::detail
