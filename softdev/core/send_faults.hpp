// SPDX-License-Identifier: MIT
// Injected faults of the send requests of a queue pair, and the requests whose completion they
// delay.
#pragma once

#include <memory>

#include "softdev/core/fault_rule.hpp"
#include "softdev/core/send_window.hpp"

namespace verbena::softdev {

/// Applies the injected faults of a queue pair. Threads: one thread at a time. Only `add`
/// allocates.
class send_faults {
 public:
  /// Adds a rule. The queue pair and its window outlive this object.
  void add(queue_pair& self, send_window& window, const fault_rule& rule);
  void remove() noexcept;
  /// Returns whether a rule was ever added.
  [[nodiscard]] bool present() const noexcept { return used_ != nullptr; }

  enum class next : std::uint8_t { starts, waits, has_fault };
  struct decision {
    next becomes = next::starts;
    const fault_rule* rule = nullptr;  ///< with has_fault
  };
  /// Decides on the next request of the window. A request with the effect `command` waits, and its
  /// observer is called.
  [[nodiscard]] decision inspect() noexcept;
  /// Permits the request that waits for a command to start.
  void resume() noexcept;
  /// Delays the completion of the next request.
  void hold(time_ns duration) noexcept;
  /// Releases requests whose completion is due.
  void release_due() noexcept;
  /// Releases all requests. Returns false if no request was held.
  bool release_all() noexcept;
  /// Forgets requests that are held or wait for a command.
  void forget() noexcept;

 private:
  struct used {
    queue_pair& self;
    send_window& window;
    request_faults requests;
  };
  void release_first() noexcept;

  std::unique_ptr<used> used_;  ///< nullptr without injected faults
};

}  // namespace verbena::softdev
