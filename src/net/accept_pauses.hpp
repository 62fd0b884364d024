// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <map>

#include "verbena/base/deadline.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The pauses of an acceptor that cannot accept connections, for example because the process has no
/// free descriptors. Decides which failures are logged. Threads: one thread at a time.
class accept_pauses {
 public:
  using time_point = deadline::clock::time_point;
  static constexpr std::chrono::milliseconds first{20};
  static constexpr std::chrono::milliseconds longest{500};
  /// A cause is logged again after this time.
  static constexpr std::chrono::minutes silence{10};

  /// Begins a pause, which is twice as long as the last one. `code` is the errno of the failure.
  /// Returns whether to log it. Allocates for a new cause.
  [[nodiscard]] bool fail(int code, time_point now) {
    until_ = now + pause_;
    pause_ = std::min(pause_ * 2, longest);
    const auto [last, is_new] = logged_.try_emplace(code, now);
    if (is_new) return true;
    if (now - last->second < silence) return false;
    last->second = now;
    return true;
  }
  /// Records that a connection was accepted.
  void succeed() noexcept { pause_ = first; }
  /// Returns when the pause ends.
  [[nodiscard]] deadline end() const noexcept { return deadline::at(until_); }

 private:
  time_point until_ = {};
  std::chrono::milliseconds pause_ = first;
  std::map<int, time_point> logged_;  // by errno: when it was logged last
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
