// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "verbena/base/deadline.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the earlier deadline.
[[nodiscard]] inline deadline earliest(deadline a, deadline b) noexcept {
  return a.when() < b.when() ? a : b;
}
/// Returns the earlier of `until` and a point `most` from now.
[[nodiscard]] inline deadline earliest(deadline until, std::chrono::nanoseconds most) noexcept {
  return earliest(until, deadline::after(most));
}

}  // namespace verbena::inline VERBENA_ABI::detail
