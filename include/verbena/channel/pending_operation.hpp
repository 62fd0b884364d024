// SPDX-License-Identifier: MIT
// The owned level of a channel: an operation takes a buffer and returns it with the result.
#pragma once

#include <source_location>

#include "verbena/base/deadline.hpp"
#include "verbena/channel/buffer_slice.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI {

/// An operation that owns its buffer while it is in flight.
///
/// The object may be destroyed at any time and may outlive its channel. Destroying it does not
/// block: the buffer returns to its pool when the device no longer accesses it. If the operation
/// then fails, channel::unseen_failures() counts it.
/// Threads: one thread at a time, for the operation and its channel together.
class [[nodiscard("destroying the operation gives up buffer and result")]] pending_operation
    : private detail::buffer_waiter {
 public:
  /// Takes the operation of `other`, which must not be used afterwards.
  pending_operation(pending_operation&& other) noexcept;
  /// Destroys its own operation and takes that of `other`.
  pending_operation& operator=(pending_operation&& other) noexcept;
  pending_operation(const pending_operation&) = delete;
  pending_operation& operator=(const pending_operation&) = delete;
  ~pending_operation();

  /// Polls once; returns the result, or nullptr if the operation is in flight. Never blocks. Can be
  /// called again after it has returned the result.
  [[nodiscard]] const operation_result* poll();
  /// Polls until the operation has completed; returns the result.
  ///
  /// A receive completes when a message arrives or the connection fails.
  [[nodiscard]] const operation_result& wait() { return *wait(deadline::never()); }
  /// Polls until the operation has completed; returns nullptr if `until` passes first.
  ///
  /// The operation then stays in flight, the connection is unaffected, and wait() can be called
  /// again.
  [[nodiscard]] const operation_result* wait(deadline until);
  /// Returns the buffer; an empty one if it was taken already.
  /// Precondition: poll() or wait() returned a result.
  [[nodiscard]] buffer take_buffer();

 private:
  friend class channel;
  pending_operation(detail::channel_core& core, const detail::operation_description& what,
                    buffer&& memory, std::source_location posted);
  [[nodiscard]] detail::channel_core& core();
  [[nodiscard]] const operation_result* outcome() noexcept;
  void take_over(pending_operation& other) noexcept;
  void let_go() noexcept;

  detail::channel_core* core_;              // held, while in flight
  detail::operation_slot* slot_ = nullptr;  // while in flight
};

}  // namespace verbena::inline VERBENA_ABI
