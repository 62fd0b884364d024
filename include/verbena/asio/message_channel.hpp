// SPDX-License-Identifier: MIT
// Message channels whose operations take Asio completion tokens.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "verbena/asio/detail/channel_owner.hpp"
#include "verbena/asio/detail/handler_operation.hpp"
#include "verbena/asio/engine.hpp"
#include "verbena/async/detail/message_operation.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/channel/buffer_slice.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::asio {

namespace detail {
template <class Operation>
class connecting_operation;

/// The buffer of a buffer_send: a base class, so that it is constructed before message_send.
/// Threads: one thread at a time.
class owned_buffer {
 protected:
  explicit owned_buffer(buffer&& of) noexcept : memory_(std::move(of)) {}
  [[nodiscard]] buffer& memory() noexcept { return memory_; }

 private:
  buffer memory_;
};

/// A message_send that owns its buffer. Threads: one thread at a time, the thread of the engine.
class buffer_send : private owned_buffer, public async::detail::message_send {
 public:
  buffer_send(async::detail::message_channel_state& of, buffer&& memory, const buffer_slice& part,
              deadline until) noexcept
      : owned_buffer(std::move(memory)), message_send(of, this->memory(), part, until) {}
  buffer_send(const buffer_send&) = delete;
  buffer_send& operator=(const buffer_send&) = delete;
  ~buffer_send() = default;
};
}  // namespace detail

/// A message channel whose operations take completion tokens.
///
///   auto message = co_await channel.async_receive(asio::use_awaitable);
///   co_await channel.async_send(message->bytes(), asio::use_awaitable);
///
/// Handlers have the signature `void(std::error_code, R)`. R is the result of the operation, which
/// has the error message. The code is zero if the operation succeeded, otherwise:
/// - `asio::error::operation_aborted`: the operation was cancelled, or the channel was destroyed;
/// - `asio::error::timed_out`: the deadline passed;
/// - a completion status, in completion_category(): the connection failed;
/// - any other code: an errno, in the category of asio::error.
///
/// Each operation can be cancelled by any cancellation type; the channel and all messages are
/// unaffected. A receive operation takes its message when its handler is about to be called.
/// Receive operations get the messages in the order of their calls. Send operations are served in
/// the order of their calls.
///
/// An operation and its handler are stored in one block of memory from the allocator of the
/// handler. The block is freed before the handler is called. For handlers without an allocator, the
/// engine caches blocks. Handlers are called through their associated executor, by default the
/// executor of the engine, and never inside the function that begins the operation.
///
/// Threads: one thread at a time, the thread of the engine.
class [[nodiscard]] message_channel {
  using state_type = async::detail::message_channel_state;

 public:
  /// The type of get_executor().
  using executor_type = engine::executor_type;

  /// Takes a connected channel. Precondition: the channel was prepared on the hub of `on`.
  /// Allocates.
  message_channel(engine& on, verbena::message_channel&& connected)
      : message_channel(detail::loop_of(on), std::move(connected)) {}

  /// Waits for the next message. Handler: `void(std::error_code, receive_result)`. A peer that has
  /// died or is unreachable is not detected while this side sends nothing: without a deadline, the
  /// operation then never ends.
  template <class Token>
  auto async_receive(Token&& token) {
    return async_receive(deadline::never(), std::forward<Token>(token));
  }
  /// Waits for the next message until `until`.
  template <class Token>
  auto async_receive(deadline until, Token&& token) {
    return of_.initiate<async::detail::message_receive>(std::forward<Token>(token), until);
  }
  /// Sends a copy of `bytes`. Waits for room. Handler: `void(std::error_code, send_result)`.
  ///
  /// The bytes must exist until the handler is called.
  template <class Token>
  auto async_send(std::span<const std::byte> bytes, Token&& token) {
    return async_send(bytes, deadline::never(), std::forward<Token>(token));
  }
  /// Sends a copy of `bytes`. Waits for room until `until`.
  template <class Token>
  auto async_send(std::span<const std::byte> bytes, deadline until, Token&& token) {
    return of_.initiate<async::detail::message_send>(std::forward<Token>(token), bytes, until);
  }
  /// Sends the range `part` of `memory` without a copy. Waits for room. If the message is refused,
  /// the buffer returns to its pool. Handler: `void(std::error_code, send_result)`.
  template <class Token>
  auto async_send(buffer memory, const buffer_slice& part, Token&& token) {
    return async_send(std::move(memory), part, deadline::never(), std::forward<Token>(token));
  }
  /// Sends the range `part` of `memory` without a copy. Waits for room until `until`.
  template <class Token>
  auto async_send(buffer memory, const buffer_slice& part, deadline until, Token&& token) {
    return of_.initiate<detail::buffer_send>(std::forward<Token>(token), std::move(memory), part,
                                             until);
  }
  /// Waits until the delivery of all sent messages is confirmed. Handler: `void(std::error_code)`.
  template <class Token>
  auto async_drain(Token&& token) {
    return async_drain(deadline::never(), std::forward<Token>(token));
  }
  /// Waits until the delivery of all sent messages is confirmed, or until `until`.
  template <class Token>
  auto async_drain(deadline until, Token&& token) {
    return of_.initiate<detail::drain_operation>(std::forward<Token>(token), until);
  }

  /// Returns the executor of the engine.
  [[nodiscard]] executor_type get_executor() const noexcept { return of_.on().executor(); }
  /// Returns the underlying channel, for queries and take_buffer().
  [[nodiscard]] verbena::message_channel& get() const { return *of_.state().of(); }
  /// Returns the underlying channel for other uses. Waiting operations end as if the channel was
  /// destroyed.
  [[nodiscard]] verbena::message_channel release() && { return of_.release(); }

 private:
  template <class Operation>
  friend class detail::connecting_operation;
  message_channel(std::shared_ptr<detail::loop> on, verbena::message_channel&& connected)
      : of_(std::move(on), std::move(connected)) {}

  detail::channel_owner<state_type> of_;
};

}  // namespace verbena::inline VERBENA_ABI::asio
