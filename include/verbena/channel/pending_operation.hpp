// SPDX-License-Identifier: MIT
// The unpolled level of a channel: a buffer goes into an operation and comes back when it is over.
#pragma once

#include <source_location>

#include "verbena/base/deadline.hpp"
#include "verbena/channel/buffer_part.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI {

/// An operation that owns its buffer while it is in flight, and gives it back. It may be dropped or
/// forgotten at any time, and may outlive its channel: neither blocks, and the memory is freed no
/// earlier than the adapter has let go of it. The failure of an operation whose handle was dropped
/// is counted by channel::unseen_failures().
/// Threads: one thread at a time, together with the channel.
class [[nodiscard("dropping it gives the buffer up")]] pending_operation
    : private detail::buffer_waiter {
 public:
  /// Takes over the operation of `other`, which must not be used afterwards.
  pending_operation(pending_operation&& other) noexcept;
  /// Drops its own operation and takes over that of `other`.
  pending_operation& operator=(pending_operation&& other) noexcept;
  pending_operation(const pending_operation&) = delete;
  pending_operation& operator=(const pending_operation&) = delete;
  ~pending_operation();

  /// How it ended; nullptr while it is in flight. Polls once if it is. Can be asked again and
  /// again. Never blocks.
  [[nodiscard]] const operation_result* poll();
  /// How it ended; nullptr if it is still in flight when `until` passes. Polls all the time.
  [[nodiscard]] const operation_result* wait(deadline until);
  /// The buffer, once the operation has ended; an empty one if it was taken already.
  /// Precondition: poll() or wait() gave a result.
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
