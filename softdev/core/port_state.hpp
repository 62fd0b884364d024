// SPDX-License-Identifier: MIT
// The state of the device's port, as far as it decides whether messages come and go.
#pragma once

#include <atomic>

namespace verbena::softdev {

/// Written seldom, read for each message. Threads: thread-safe.
class port_state {
 public:
  /// While the port is down nothing leaves it and nothing comes in; nobody is told.
  [[nodiscard]] bool up() const noexcept { return up_.load(std::memory_order_acquire); }
  /// True when that is a change.
  bool set_up(bool up) noexcept { return up_.exchange(up) != up; }

 private:
  alignas(64) std::atomic<bool> up_{true};
};

}  // namespace verbena::softdev
