// SPDX-License-Identifier: MIT
// A channel with awaitable operations.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <utility>

#include "verbena/async/detail/channel_operation.hpp"
#include "verbena/async/detail/lasting_list.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/operation.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/channel/abort_at.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::async {

/// A channel whose operations are awaitable.
///
///   async::channel channel(engine, std::move(connected));
///   operation_result done = co_await channel.write(source(page), remote);
///
/// Each function returns an operation, which starts when it is awaited. The value of `co_await` is
/// an operation_result. If the send queue or the receive queue is full, operations wait for room,
/// in the order in which they were started. Operations do not allocate, lock or make system calls.
/// Several coroutines may await operations of a channel at the same time.
///
/// An operation copies its arguments, except the elements of lists of slices and the bytes of
/// inline data. Temporary lists do not compile. *Contract of all operations.* From `co_await` until
/// the coroutine is resumed, the program must not write the memory of sources, must not access the
/// memory of sinks, and must keep both registered.
///
/// If `limit` passes and the operation is posted, the queue pair is moved to the error state, which
/// ends the connection. The operation ends as `aborted` when the device has flushed it. If `limit`
/// passes while the operation waits for room, the operation is refused with ETIMEDOUT, and the
/// connection is unaffected. If a coroutine is destroyed while an operation that it awaits is in
/// flight, the destructor also ends the connection, and blocks until the device has flushed the
/// operation, for at most 5 s.
///
/// Threads: one thread at a time, the thread of the engine.
class [[nodiscard]] channel {
  template <detail::operation_kind Kind>
  using of_piece = operation<detail::piece_operation<Kind>>;
  using piece = detail::memory_piece;
  using general = operation<detail::general_operation>;
  using kind = detail::operation_kind;

 public:
  /// Takes a connected channel. Preconditions: the channel was created on the hub of `on`, and has
  /// no blocking or scoped operations in flight. Allocates.
  channel(engine& on, verbena::channel&& connected);
  /// Takes the channel of `other`, which must not be used afterwards.
  channel(channel&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  /// Destroys the current channel and takes the channel of `other`, which must not be used
  /// afterwards.
  channel& operator=(channel&& other) noexcept;
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  /// Destroys the queue pair. Operations in flight end as `lost`. Operations that wait for room are
  /// refused as refusal::channel_destroyed.
  ~channel();

  /// Sends a message. Completes when the peer's device has acknowledged the message.
  [[nodiscard]] auto send(const source& data, abort_at limit = {},
                          std::source_location posted = std::source_location::current()) {
    return of_piece<kind::send>(state(), piece(data), remote_region(), limit.when(), posted);
  }
  /// Sends a message from several slices, from inline data, or with options.
  [[nodiscard]] auto send(const detail::lasting_outgoing& data, const operation_options& options,
                          abort_at limit = {},
                          std::source_location posted = std::source_location::current()) {
    return general(
        state(),
        detail::operation_description{.kind = kind::send, .out = data.get(), .options = options},
        limit.when(), posted);
  }
  /// Receives one message. Its length is `byte_length()` of the result, which is 0 if a write with
  /// immediate data of the peer consumed the receive.
  [[nodiscard]] auto receive(const sink& into, abort_at limit = {},
                             std::source_location posted = std::source_location::current()) {
    return of_piece<kind::receive>(state(), piece(into), remote_region(), limit.when(), posted);
  }
  /// Receives one message into several slices, which are filled in order.
  [[nodiscard]] auto receive(const detail::lasting_sinks& into, abort_at limit = {},
                             std::source_location posted = std::source_location::current()) {
    return general(state(), detail::operation_description{.kind = kind::receive, .in = into.get()},
                   limit.when(), posted);
  }
  /// Writes to the beginning of `to`. The peer receives no completion.
  [[nodiscard]] auto write(const source& data, const remote_region& to, abort_at limit = {},
                           std::source_location posted = std::source_location::current()) {
    return of_piece<kind::write>(state(), piece(data), to, limit.when(), posted);
  }
  /// Writes from several slices, from inline data, or with options.
  [[nodiscard]] auto write(const detail::lasting_outgoing& data, const remote_region& to,
                           const operation_options& options, abort_at limit = {},
                           std::source_location posted = std::source_location::current()) {
    return general(state(),
                   detail::operation_description{
                       .kind = kind::write, .out = data.get(), .remote = to, .options = options},
                   limit.when(), posted);
  }
  /// Reads the beginning of `from`: as many bytes as `into` has.
  [[nodiscard]] auto read(const sink& into, const remote_region& from, abort_at limit = {},
                          std::source_location posted = std::source_location::current()) {
    return of_piece<kind::read>(state(), piece(into), from, limit.when(), posted);
  }
  /// Reads into several slices, which are filled in order.
  [[nodiscard]] auto read(const detail::lasting_sinks& into, const remote_region& from,
                          abort_at limit = {},
                          std::source_location posted = std::source_location::current()) {
    return general(
        state(),
        detail::operation_description{.kind = kind::read, .in = into.get(), .remote = from},
        limit.when(), posted);
  }
  /// Replaces the first 8 bytes of `target` by `operands.desired` if they are `operands.expected`.
  /// Stores their previous value in `before`, in host byte order.
  [[nodiscard]] auto compare_and_swap(
      const sink& before, const remote_region& target, compare_and_swap_operands operands,
      abort_at limit = {}, std::source_location posted = std::source_location::current()) {
    return general(
        state(), detail::operation_description::comparison(target, operands, std::span(&before, 1)),
        limit.when(), posted);
  }
  /// Adds to the first 8 bytes of `target`. Stores their previous value in `before`, in host byte
  /// order.
  [[nodiscard]] auto fetch_and_add(const sink& before, const remote_region& target,
                                   std::uint64_t addend, abort_at limit = {},
                                   std::source_location posted = std::source_location::current()) {
    return general(state(),
                   detail::operation_description::addition(target, addend, std::span(&before, 1)),
                   limit.when(), posted);
  }

  /// Ends the connection: moves the queue pair to the error state. Operations in flight end as
  /// `aborted`. If they are not flushed within 5 s, the queue pair is destroyed, and they end as
  /// `lost`. Makes a system call; does not wait.
  void abort();
  /// Returns the underlying channel, for queries.
  [[nodiscard]] const verbena::channel& get() const { return *state().of(); }
  /// Returns the underlying channel for other uses, such as reconnect(). Precondition: no operation
  /// is in flight.
  [[nodiscard]] verbena::channel release() &&;

 private:
  [[nodiscard]] detail::channel_state& state() const {
    VERBENA_ASSERT(state_ != nullptr, "a moved-from async::channel was used");
    return *state_;
  }
  void close() noexcept;

  detail::channel_state* state_;  // reference-counted: hold() and release()
};

}  // namespace verbena::inline VERBENA_ABI::async
