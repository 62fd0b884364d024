// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Marks a queue pair with posted receives that other code connects, and then returns or destroys.
/// If the device refuses to destroy it, the mark shows that the receives are still posted.
/// Threads: one thread at a time.
class released_queue {
 public:
  /// Marks the queue pair. Allocates.
  void mark(const queue_pair<rc>& to_be_connected) {
    mark_ = std::make_shared<char>();
    internals::state_of(to_be_connected)->parents().released_by = mark_;
  }
  /// Records that polling failed with errno `code`, if a queue pair is released: the adapter may
  /// still fill the buffers of its receives. Otherwise returns false.
  [[nodiscard]] bool lose(int code) noexcept {
    if (!is_released()) return false;
    lost_ = code;
    return true;
  }
  /// Removes the mark from the connected queue pair. Returns the errno of lose(), if it was called.
  [[nodiscard]] std::optional<int> take_back(const queue_pair<rc>& connected) noexcept {
    internals::state_of(connected)->parents().released_by.reset();
    mark_.reset();
    return std::exchange(lost_, std::nullopt);
  }
  /// Forgets a queue pair that was not returned. Returns false if it could not be
  /// destroyed.
  [[nodiscard]] bool end() noexcept {
    const bool is_destroyed = mark_.use_count() <= 1;
    mark_.reset();
    lost_.reset();
    return is_destroyed;
  }
  /// Returns whether a queue pair is released.
  [[nodiscard]] bool is_released() const noexcept { return mark_ != nullptr; }

 private:
  std::shared_ptr<const void> mark_;
  std::optional<int> lost_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
