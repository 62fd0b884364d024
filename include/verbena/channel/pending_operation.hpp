// SPDX-License-Identifier: MIT
// The owned level of a channel: an operation takes a buffer and returns it with the result.
#pragma once

#include <optional>
#include <source_location>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
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
  ~pending_operation() {
    if (core_ != nullptr) let_go();
  }

  /// Polls once; returns the result, or nullptr if the operation is in flight. Never blocks. Can be
  /// called again after it has returned the result.
  [[nodiscard]] const operation_result* poll() & VERBENA_LIFETIMEBOUND;
  /// Polls once; returns a copy of the result, or nullopt. For a temporary operation.
  [[nodiscard]] std::optional<operation_result> poll() && { return detail::copy_of(poll()); }
  /// Polls until the operation has completed; returns the result.
  ///
  /// A receive completes when a message arrives or the connection fails.
  [[nodiscard]] const operation_result& wait() & VERBENA_LIFETIMEBOUND {
    return *wait(deadline::never());
  }
  /// Polls until the operation has completed; returns the result. The buffer returns to its pool.
  [[nodiscard]] operation_result wait() && { return wait(); }
  /// Polls until the operation has completed; returns nullptr if `until` passes first.
  ///
  /// The operation then stays in flight, the connection is unaffected unless it has ended, and
  /// wait() can be called again.
  [[nodiscard]] const operation_result* wait(deadline until) & VERBENA_LIFETIMEBOUND;
  /// Polls until the operation has completed; returns a copy of the result, or nullopt if `until`
  /// passes first. For a temporary operation.
  [[nodiscard]] std::optional<operation_result> wait(deadline until) && {
    return detail::copy_of(wait(until));
  }
  /// Returns the buffer; an empty one if it was taken already.
  /// Precondition: poll() or wait() returned a result.
  [[nodiscard]] buffer take_buffer() {
    VERBENA_ASSERT(
        ended,
        "take_buffer() of an operation in flight: call it after poll() or wait() has returned a "
        "result");
    return std::move(held);
  }

 private:
  friend class channel;
  // An operation that channel_core::submit_usual() has posted.
  pending_operation(detail::channel_core& core, detail::operation_kind kind, buffer&& memory,
                    std::source_location posted);
  // A post that the device refused with `code`.
  pending_operation(int code, buffer&& memory, std::source_location posted);
  pending_operation(detail::channel_core& core, const detail::operation_description& what,
                    buffer&& memory, std::source_location posted);
  template <detail::operation_kind Kind, class Piece>
  [[nodiscard]] [[gnu::always_inline]] static inline pending_operation
  post(  // lint: allow(parameters): those of post_write()
      detail::channel_core& core, buffer&& memory, const buffer_slice& part,
      const remote_region& remote, const operation_options& options, std::source_location posted);
  [[nodiscard]] static pending_operation post_atomic(detail::channel_core& core,
                                                     detail::operation_description what,
                                                     buffer&& memory, std::source_location posted);
  [[nodiscard]] detail::channel_core& core() const {
    VERBENA_ASSERT(core_ != nullptr, "a moved-from operation was used");
    return *core_;
  }
  [[nodiscard]] const operation_result* outcome() noexcept;
  [[nodiscard]] const operation_result* wait_longer(detail::found what, deadline until);
  void take_over(pending_operation& other) noexcept;
  void let_go() noexcept;

  detail::channel_core* core_;              // held, while in flight
  detail::operation_slot* slot_ = nullptr;  // while in flight
};

}  // namespace verbena::inline VERBENA_ABI
