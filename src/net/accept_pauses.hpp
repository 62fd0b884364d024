// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <map>

#include "verbena/base/deadline.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The pauses of an acceptor after accept failures, for example because the process has no free
/// descriptors. Limits the rate at which failures are logged. Threads: one thread at a time.
class accept_pauses {
 public:
  using time_point = deadline::clock::time_point;
  static constexpr std::chrono::milliseconds first{20};
  static constexpr std::chrono::milliseconds longest{500};
  /// The minimum time between two log entries for the same errno.
  static constexpr std::chrono::minutes silence{10};

  /// Starts a pause. The first pause is `first`; each further one is twice as long, up to
  /// `longest`. `code` is the errno of the failure. Returns true if the failure is to be logged.
  /// Allocates for a new errno.
  [[nodiscard]] bool fail(int code, time_point now) {
    until_ = now + pause_;
    pause_ = std::min(pause_ * 2, longest);
    const auto [last, is_new] = logged_.try_emplace(code, now);
    if (is_new) return true;
    if (now - last->second < silence) return false;
    last->second = now;
    return true;
  }
  /// Records that a connection was accepted: the next pause is `first` again.
  void succeed() noexcept { pause_ = first; }
  /// Returns the end of the pause.
  [[nodiscard]] deadline end() const noexcept { return deadline::at(until_); }

 private:
  time_point until_ = {};
  std::chrono::milliseconds pause_ = first;
  std::map<int, time_point> logged_;  // by errno: time of the last log entry
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
