// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <ratio>

#include "verbena/base/deadline.hpp"

namespace verbena::inline VERBENA_ABI {

/// The time at which a blocking operation or a scope ends the connection to release its memory.
///
/// The device may access the memory of a posted operation until the operation completes. A call
/// that names memory of the program therefore cannot return earlier, unless it ends the connection:
/// the queue pair moves to the error state, and the device flushes the operations in flight. If the
/// time passes, the operations end as operation_end::aborted, and the channel needs reconnect(). An
/// operation whose time has passed before its post is refused with refusal::limit_passed, and the
/// connection stays. To wait for a limited time without ending the connection, use post_receive()
/// and pending_operation::wait(deadline). Threads: immutable value.
class abort_at {
 public:
  /// Sets no limit: the call returns when the operation completes.
  abort_at() noexcept : when_(deadline::never()) {}
  /// Ends the connection when `when` passes.
  explicit abort_at(deadline when) noexcept : when_(when) {}

  /// Returns the point in time; deadline::never() if there is no limit.
  [[nodiscard]] deadline when() const noexcept { return when_; }
  /// Returns whether the time has passed. Reads the clock if there is a limit.
  [[nodiscard]] bool has_passed() const noexcept { return !when_.is_never() && when_.expired(); }

 private:
  deadline when_;
};

/// Ends the connection if the operation has not completed after `duration`.
template <class Rep = std::int64_t, class Period = std::nano>
[[nodiscard]] abort_at abort_after(std::chrono::duration<Rep, Period> duration) noexcept {
  return abort_at(deadline::after(duration));
}

}  // namespace verbena::inline VERBENA_ABI
