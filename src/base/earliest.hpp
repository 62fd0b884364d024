// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>

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
/// Returns the end of the first of `count` equal parts of the time until a deadline. Precondition:
/// count > 0.
[[nodiscard]] inline deadline share_of(deadline until, std::size_t count) noexcept {
  if (until.is_never()) return until;
  return deadline::after(until.time_left() / static_cast<deadline::clock::rep>(count));
}

}  // namespace verbena::inline VERBENA_ABI::detail
