// SPDX-License-Identifier: MIT
// How channels and message channels look for a disconnect of the connection manager.
#pragma once

#include <chrono>

#include "verbena/base/log.hpp"
#include "verbena/cm/connection.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A call that waits looks this often whether the connection has ended without a completion.
inline constexpr std::chrono::milliseconds time_between_looks(100);

/// Returns whether the peer has disconnected. If the events cannot be read, logs the error and
/// returns true.
[[nodiscard]] inline bool has_disconnected(cm::connection& of) {
  const auto is_closed = of.is_disconnected();
  if (is_closed.has_value()) return is_closed.value();
  log(log_level::warning, is_closed.error().message());
  return true;
}

}  // namespace verbena::inline VERBENA_ABI::detail
