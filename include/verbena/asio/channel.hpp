// SPDX-License-Identifier: MIT
// Channels whose operations take Asio completion tokens.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <utility>

#include "verbena/asio/detail/channel_owner.hpp"
#include "verbena/asio/detail/handler_operation.hpp"
#include "verbena/asio/engine.hpp"
#include "verbena/async/detail/channel_operation.hpp"
#include "verbena/async/detail/lasting_list.hpp"
#include "verbena/channel/abort_at.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::asio {

/// A channel whose operations take completion tokens.
///
///   channel.async_write(source(page), remote, [](std::error_code code, operation_result done) {});
///
/// Handlers have the signature `void(std::error_code, operation_result)`; the result has the error
/// message. The code is zero if the operation succeeded, otherwise:
/// - `asio::error::operation_aborted`: the operation was cancelled, the channel was destroyed, or a
///   limit, a cancellation or abort() ended the connection;
/// - `asio::error::timed_out`: the limit passed while the operation waited for room;
/// - a completion status, in completion_category(): the operation failed;
/// - any other code: an errno, in the category of asio::error.
///
/// Operations and limits behave as in async::channel. *Contract*: until the handler is called or
/// destroyed, the program must not write the memory of sources, must not access the memory of
/// sinks, and must keep both registered. An operation that waits for room in a queue can be
/// cancelled by any cancellation type; the connection is unaffected. A posted operation can be
/// cancelled only by `terminal`, which ends the connection.
///
/// Allocation and executors: see message_channel.
///
/// Threads: one thread at a time, the thread of the engine.
class [[nodiscard]] channel {
  using place = std::source_location;
  using piece = async::detail::memory_piece;
  using kind = async::detail::operation_kind;
  using description = async::detail::operation_description;

 public:
  /// The type of get_executor().
  using executor_type = engine::executor_type;

  /// Takes a connected channel. Preconditions: the channel was created on the hub of `on`, and has
  /// no blocking or scoped operations in flight. Allocates.
  channel(engine& on, verbena::channel&& connected)
      : of_(detail::loop_of(on), std::move(connected)) {}

  /// Sends a message. Completes when the peer's device has acknowledged the message.
  template <class Token>
  auto async_send(const source& data, Token&& token, place posted = place::current()) {
    return one<kind::send>(piece(data), {}, abort_at(), std::forward<Token>(token), posted);
  }
  /// Sends a message, with a limit.
  template <class Token>
  auto async_send(const source& data, abort_at limit, Token&& token,
                  place posted = place::current()) {
    return one<kind::send>(piece(data), {}, limit, std::forward<Token>(token), posted);
  }
  /// Sends a message from several slices, from inline data, or with options.
  template <class Token>
  auto async_send(const async::detail::lasting_outgoing& data, const operation_options& options,
                  Token&& token, place posted = place::current()) {
    return async_send(data, options, abort_at(), std::forward<Token>(token), posted);
  }
  /// Sends a message from several slices, from inline data, or with options, with a limit.
  template <class Token>
  auto async_send(const async::detail::lasting_outgoing& data, const operation_options& options,
                  abort_at limit, Token&& token, place posted = place::current()) {
    return any({.kind = kind::send, .out = data.get(), .options = options}, limit,
               std::forward<Token>(token), posted);
  }
  /// Receives one message. Its length is `byte_length()` of the result, which is 0 if a write with
  /// immediate data of the peer consumed the receive.
  template <class Token>
  auto async_receive(const sink& into, Token&& token, place posted = place::current()) {
    return one<kind::receive>(piece(into), {}, abort_at(), std::forward<Token>(token), posted);
  }
  /// Receives one message, with a limit.
  template <class Token>
  auto async_receive(const sink& into, abort_at limit, Token&& token,
                     place posted = place::current()) {
    return one<kind::receive>(piece(into), {}, limit, std::forward<Token>(token), posted);
  }
  /// Receives one message into several slices, which are filled in order.
  template <class Token>
  auto async_receive(const async::detail::lasting_sinks& into, Token&& token,
                     place posted = place::current()) {
    return async_receive(into, abort_at(), std::forward<Token>(token), posted);
  }
  /// Receives one message into several slices, with a limit.
  template <class Token>
  auto async_receive(const async::detail::lasting_sinks& into, abort_at limit, Token&& token,
                     place posted = place::current()) {
    return any({.kind = kind::receive, .in = into.get()}, limit, std::forward<Token>(token),
               posted);
  }
  /// Writes to the beginning of `to`. The peer receives no completion.
  template <class Token>
  auto async_write(const source& data, const remote_region& to, Token&& token,
                   place posted = place::current()) {
    return one<kind::write>(piece(data), to, abort_at(), std::forward<Token>(token), posted);
  }
  /// Writes to the beginning of `to`, with a limit.
  template <class Token>
  auto async_write(const source& data, const remote_region& to, abort_at limit, Token&& token,
                   place posted = place::current()) {
    return one<kind::write>(piece(data), to, limit, std::forward<Token>(token), posted);
  }
  /// Writes from several slices, from inline data, or with options.
  template <class Token>
  auto async_write(const async::detail::lasting_outgoing& data, const remote_region& to,
                   const operation_options& options, Token&& token,
                   place posted = place::current()) {
    return async_write(data, to, options, abort_at(), std::forward<Token>(token), posted);
  }
  /// Writes from several slices, from inline data, or with options, with a limit.
  template <class Token>
  // lint: allow(parameters): those of async::channel, and the token
  auto async_write(const async::detail::lasting_outgoing& data, const remote_region& to,
                   const operation_options& options, abort_at limit, Token&& token,
                   place posted = place::current()) {
    return any({.kind = kind::write, .out = data.get(), .remote = to, .options = options}, limit,
               std::forward<Token>(token), posted);
  }
  /// Reads the beginning of `from`: as many bytes as `into` has.
  template <class Token>
  auto async_read(const sink& into, const remote_region& from, Token&& token,
                  place posted = place::current()) {
    return one<kind::read>(piece(into), from, abort_at(), std::forward<Token>(token), posted);
  }
  /// Reads the beginning of `from`, with a limit.
  template <class Token>
  auto async_read(const sink& into, const remote_region& from, abort_at limit, Token&& token,
                  place posted = place::current()) {
    return one<kind::read>(piece(into), from, limit, std::forward<Token>(token), posted);
  }
  /// Reads into several slices, which are filled in order.
  template <class Token>
  auto async_read(const async::detail::lasting_sinks& into, const remote_region& from,
                  Token&& token, place posted = place::current()) {
    return async_read(into, from, abort_at(), std::forward<Token>(token), posted);
  }
  /// Reads into several slices, with a limit.
  template <class Token>
  auto async_read(const async::detail::lasting_sinks& into, const remote_region& from,
                  abort_at limit, Token&& token, place posted = place::current()) {
    return any({.kind = kind::read, .in = into.get(), .remote = from}, limit,
               std::forward<Token>(token), posted);
  }
  /// Replaces the first 8 bytes of `target` by `operands.desired` if they are `operands.expected`.
  /// Stores their previous value in `before`, in host byte order.
  template <class Token>
  auto async_compare_and_swap(const sink& before, const remote_region& target,
                              compare_and_swap_operands operands, Token&& token,
                              place posted = place::current()) {
    return async_compare_and_swap(before, target, operands, abort_at(), std::forward<Token>(token),
                                  posted);
  }
  /// Compares and swaps, with a limit.
  template <class Token>
  // lint: allow(parameters): those of async::channel, and the token
  auto async_compare_and_swap(const sink& before, const remote_region& target,
                              compare_and_swap_operands operands, abort_at limit, Token&& token,
                              place posted = place::current()) {
    return any(description::comparison(target, operands, std::span(&before, 1)), limit,
               std::forward<Token>(token), posted);
  }
  /// Adds to the first 8 bytes of `target`. Stores their previous value in `before`, in host byte
  /// order.
  template <class Token>
  auto async_fetch_and_add(const sink& before, const remote_region& target, std::uint64_t addend,
                           Token&& token, place posted = place::current()) {
    return async_fetch_and_add(before, target, addend, abort_at(), std::forward<Token>(token),
                               posted);
  }
  /// Fetches and adds, with a limit.
  template <class Token>
  // lint: allow(parameters): those of async::channel, and the token
  auto async_fetch_and_add(const sink& before, const remote_region& target, std::uint64_t addend,
                           abort_at limit, Token&& token, place posted = place::current()) {
    return any(description::addition(target, addend, std::span(&before, 1)), limit,
               std::forward<Token>(token), posted);
  }

  /// Ends the connection: moves the queue pair to the error state. All operations complete with
  /// `asio::error::operation_aborted`. Makes a system call.
  void abort() {
    of_.state().abort(failure_cause::program);
    of_.on().wake();
  }
  /// Returns the executor of the engine.
  [[nodiscard]] executor_type get_executor() const noexcept { return of_.on().executor(); }
  /// Returns the underlying channel, for queries.
  [[nodiscard]] const verbena::channel& get() const { return *of_.state().of(); }
  /// Returns the underlying channel for other uses, such as reconnect(). Precondition: no operation
  /// is in flight.
  [[nodiscard]] verbena::channel release() && { return of_.release(); }

 private:
  // An operation on one slice without options.
  template <kind Kind, class Token>
  [[gnu::always_inline]] inline auto one(const piece& memory, const remote_region& remote,
                                         abort_at limit, Token&& token, place posted) {
    return of_.initiate<async::detail::piece_operation<Kind>>(std::forward<Token>(token), memory,
                                                              remote, limit.when(), posted);
  }
  template <class Token>
  auto any(const description& what, abort_at limit, Token&& token, place posted) {
    using operation = async::detail::general_operation;
    // The operation copies a single slice and inline data; lists must outlive it.
    return detail::initiate<operation>(of_.on(), std::forward<Token>(token),
                                       operation(of_.state(), what, limit.when(), posted));
  }

  detail::channel_owner<async::detail::channel_state> of_;
};

}  // namespace verbena::inline VERBENA_ABI::asio
