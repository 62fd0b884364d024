// SPDX-License-Identifier: MIT
// A message channel with awaitable operations.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "verbena/async/detail/message_operation.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/operation.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/channel/buffer_slice.hpp"
#include "verbena/channel/message_channel.hpp"

namespace verbena::inline VERBENA_ABI::async {

namespace detail {
struct connected_channel;
}  // namespace detail

/// A message channel whose operations are awaitable.
///
///   async::message_channel channel(engine, std::move(connected));
///   while (auto message = co_await channel.receive())
///     (co_await channel.send(message->bytes())).value();
///
/// Several coroutines may await operations of a channel at the same time. Receive operations get
/// the messages in the order in which they were started; send operations are served in the order in
/// which they were started. If a deadline passes, or if a coroutine is destroyed while it waits,
/// the channel and all messages are unaffected. Operations do not lock or make system calls, and
/// allocate only to describe a failure. Threads: one thread at a time, the thread of the engine.
class [[nodiscard]] message_channel {
 public:
  /// Takes a connected channel. Precondition: the channel was prepared on the hub of `on`.
  /// Allocates.
  message_channel(engine& on, verbena::message_channel&& connected)
      : message_channel(detail::state_of(on), std::move(connected)) {}
  /// Takes the channel of `other`, which must not be used afterwards.
  message_channel(message_channel&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  /// Destroys the current channel and takes the channel of `other`, which must not be used
  /// afterwards.
  message_channel& operator=(message_channel&& other) noexcept;
  message_channel(const message_channel&) = delete;
  message_channel& operator=(const message_channel&) = delete;
  /// Destroys the channel. Waiting operations end with ENOTCONN; drain() returns false.
  ~message_channel();

  /// Waits for the next message. The value is a receive_result. A peer that has died or is
  /// unreachable is not detected while this side sends nothing: without a deadline, the operation
  /// then never ends.
  [[nodiscard]] auto receive(deadline until = deadline::never()) {
    return operation<detail::message_receive>(state(), until);
  }
  /// Sends a copy of `bytes`. Waits for room until `until`. The value is the send_result of
  /// verbena::message_channel::send().
  [[nodiscard]] auto send(std::span<const std::byte> bytes, deadline until = deadline::never()) {
    return operation<detail::message_send>(state(), bytes, until);
  }
  /// Sends the range `part` of `memory` without a copy. Waits for room until `until`. Takes the
  /// buffer from `memory` only if the message is accepted.
  [[nodiscard]] auto send(buffer& memory, const buffer_slice& part = {},
                          deadline until = deadline::never()) {
    return operation<detail::message_send>(state(), memory, part, until);
  }
  /// Waits until the delivery of all sent messages is confirmed. The value is false if the deadline
  /// passes first or the channel ends.
  [[nodiscard]] auto drain(deadline until = deadline::never()) {
    return operation<detail::message_drain>(state(), until);
  }

  /// Returns the underlying channel, for queries and take_buffer(). Precondition: release() was not
  /// called.
  [[nodiscard]] verbena::message_channel& get() const { return *state().of(); }
  /// Returns the underlying channel for other uses. Waiting operations end as if the channel was
  /// destroyed.
  [[nodiscard]] verbena::message_channel release() &&;

 private:
  friend struct detail::connected_channel;
  message_channel(detail::engine_state& on, verbena::message_channel&& connected);
  [[nodiscard]] detail::message_channel_state& state() const;
  void close() noexcept;

  detail::message_channel_state* state_;  // reference-counted: hold() and release()
};

}  // namespace verbena::inline VERBENA_ABI::async
