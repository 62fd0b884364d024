// SPDX-License-Identifier: MIT
// Checked builds: the objects that a thread has open and can open only once, such as a batch of an
// extended queue or a pass over a completion queue. In other builds the functions have no effect.
#pragma once

#include "verbena/base/call_site.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

#ifdef VERBENA_CHECKED

/// Records that this thread opened `object` at `where`. If `object` is open already, stops the
/// program with `rule` and both places. May allocate. Thread-safe.
void open_alone(const void* object, const char* rule, call_site where);
/// If this thread has `object` open, stops the program with `rule` and both places. Thread-safe.
void check_not_open(const void* object, const char* rule, call_site where);
/// Records that this thread closed `object`. Thread-safe.
void end_alone(const void* object) noexcept;
/// If an object that was made at `earlier` is not `there`, stops the program with `rule` and both
/// places. Thread-safe.
void check_in_time(bool there, call_site earlier, const char* rule, call_site where);

#else

[[gnu::always_inline]] inline void open_alone(const void*, const char*, call_site) noexcept {}
[[gnu::always_inline]] inline void check_not_open(const void*, const char*, call_site) noexcept {}
[[gnu::always_inline]] inline void end_alone(const void*) noexcept {}

#endif

}  // namespace verbena::inline VERBENA_ABI::detail
