// SPDX-License-Identifier: MIT
// Checked builds: what a thread has open that it may open once only, as a batch of an extended
// queue. The data path of other builds does not call these.
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Notes that this thread opened `object`; false if it has it open already. Allocates when a thread
/// has more open than ever before. Thread-safe.
[[nodiscard]] bool open_alone(const void* object);
/// Whether this thread has it open. Thread-safe.
[[nodiscard]] bool is_open_here(const void* object) noexcept;
/// Forgets it. Thread-safe.
void forget_open(const void* object) noexcept;

/// The same, of checked builds only.
[[gnu::always_inline]] inline void end_alone([[maybe_unused]] const void* object) noexcept {
#ifdef VERBENA_CHECKED
  forget_open(object);
#endif
}

}  // namespace verbena::inline VERBENA_ABI::detail
