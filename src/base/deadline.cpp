// SPDX-License-Identifier: MIT
#include "verbena/base/deadline.hpp"

#include <algorithm>

namespace verbena::inline VERBENA_ABI {

deadline deadline::from_now(std::chrono::nanoseconds duration) noexcept {
  const auto now = clock::now();
  if (duration <= std::chrono::nanoseconds::zero()) return at(now);
  if (duration > clock::time_point::max() - now) return never();
  return at(now + duration);
}

bool deadline::expired() const noexcept { return !is_never() && clock::now() >= when_; }

deadline::clock::duration deadline::time_left() const noexcept {
  if (is_never()) return clock::duration::max();
  // The difference to a distant past would overflow.
  const auto now = clock::now();
  return std::max(when_, now) - now;
}

int deadline::poll_timeout_ms() const noexcept {
  if (is_never()) return -1;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time_left());
  return static_cast<int>(std::min<std::int64_t>(ms.count(), 86'400'000));
}

}  // namespace verbena::inline VERBENA_ABI
