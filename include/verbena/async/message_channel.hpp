// SPDX-License-Identifier: MIT
// Messages to co_await.
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

/// A message channel whose operations are awaited.
///
///   async::message_channel channel(engine, std::move(connected));
///   while (auto message = co_await channel.receive())
///     (co_await channel.send(message->bytes())).value();
///
/// Several coroutines may await operations of a channel at once: those that receive get the
/// messages in the order of their calls, and those that send are served in that order. A deadline
/// that passes, or a coroutine that is destroyed while it waits, leaves the channel and all
/// messages unaffected. No operation allocates, locks or makes a system call, except to describe a
/// failure. Threads: one thread at a time, that of the engine.
class [[nodiscard]] message_channel {
 public:
  /// Takes a connected channel. Precondition: it was prepared on the hub of `on`. Allocates.
  message_channel(engine& on, verbena::message_channel&& connected)
      : message_channel(detail::state_of(on), std::move(connected)) {}
  /// Takes the channel of `other`, which must not be used afterwards.
  message_channel(message_channel&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  /// Destroys its own channel and takes that of `other`, which must not be used afterwards.
  message_channel& operator=(message_channel&& other) noexcept;
  message_channel(const message_channel&) = delete;
  message_channel& operator=(const message_channel&) = delete;
  /// Destroys the channel. Operations that wait end as after a failure.
  ~message_channel();

  /// Waits for the next message. The value is a receive_result.
  [[nodiscard]] auto receive(deadline until = deadline::never()) {
    return operation<detail::message_receive>(state(), until);
  }
  /// Sends a copy of `bytes`; waits for room. The value is a send_result, as of try_send() or,
  /// after the deadline, of send() of verbena::message_channel.
  [[nodiscard]] auto send(std::span<const std::byte> bytes, deadline until = deadline::never()) {
    return operation<detail::message_send>(state(), bytes, until);
  }
  /// Sends the bytes of `memory` that `part` names, without a copy; waits for room. Takes the
  /// buffer from `memory` only when the message is accepted.
  [[nodiscard]] auto send(buffer& memory, const buffer_slice& part = {},
                          deadline until = deadline::never()) {
    return operation<detail::message_send>(state(), memory, part, until);
  }
  /// Waits until all sent messages are known to be delivered. The value is false if the deadline
  /// passes first or the channel ends.
  [[nodiscard]] auto drain(deadline until = deadline::never()) {
    return operation<detail::message_drain>(state(), until);
  }

  /// Returns the channel without asynchronous operations, for queries and take_buffer().
  /// Precondition: release() was not called.
  [[nodiscard]] verbena::message_channel& get() const { return *state().of(); }
  /// Returns the channel for other uses. Operations that wait end as if it was destroyed.
  [[nodiscard]] verbena::message_channel release() &&;

 private:
  friend struct detail::connected_channel;
  message_channel(detail::engine_state& on, verbena::message_channel&& connected);
  [[nodiscard]] detail::message_channel_state& state() const;
  void close() noexcept;

  detail::message_channel_state* state_;  // counted: hold() and release()
};

}  // namespace verbena::inline VERBENA_ABI::async
