// SPDX-License-Identifier: MIT
// Conversion of durations without overflow: 292 years are the most that nanoseconds can express.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <ratio>
#include <utility>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Converts a duration, rounding towards zero. Returns the nearest limit of `To` if the value is
/// beyond it. A value that is not a number becomes the lower limit.
template <class To, class Rep, class Period>
[[nodiscard]] constexpr To saturating_cast(std::chrono::duration<Rep, Period> value) noexcept {
  if constexpr (!std::integral<Rep>) {
    using wide = std::chrono::duration<long double, typename To::period>;
    const wide exact(value);
    if (exact >= wide(To::max())) return To::max();
    if (!(exact > wide(To::min()))) return To::min();
  } else if constexpr (std::ratio_greater_equal_v<Period, typename To::period>) {
    using coarse = std::chrono::duration<std::intmax_t, Period>;
    if (std::cmp_greater(value.count(), std::chrono::duration_cast<coarse>(To::max()).count()))
      return To::max();
    if (std::cmp_less(value.count(), std::chrono::duration_cast<coarse>(To::min()).count()))
      return To::min();
  }
  return std::chrono::duration_cast<To>(value);
}

}  // namespace verbena::inline VERBENA_ABI::detail
