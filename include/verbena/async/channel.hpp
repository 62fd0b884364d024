// SPDX-License-Identifier: MIT
// Operations of a channel to co_await.
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

/// A channel whose operations are awaited.
///
///   async::channel channel(engine, std::move(connected));
///   operation_result done = co_await channel.write(source(page), remote);
///
/// Each function returns an operation, which starts when it is awaited and whose value is an
/// operation_result. If the send queue or the receive queue is full, the operation waits for room,
/// in the order of the calls. No operation allocates, locks or makes a system call. Several
/// coroutines may await operations of a channel at once.
///
/// An operation copies its arguments, except the elements of lists of slices and the bytes of
/// inline data. A temporary list is refused at compile time. *Contract of all operations.* From
/// `co_await` until the coroutine is resumed, the program must not write the memory of sources,
/// must not access the memory of sinks, and must keep both registered.
///
/// `limit` ends the connection if the operation has not completed then: the queue pair is moved to
/// the error state, and the operation ends as `aborted` when the device has flushed it. An
/// operation that still waits for room ends as refused with ETIMEDOUT, and the connection is
/// unaffected. If a coroutine is destroyed while it waits for an operation, the destructor also
/// ends the connection, and blocks until the device has flushed the operation (at most 5 s).
///
/// Threads: one thread at a time, that of the engine.
class [[nodiscard]] channel {
  template <detail::operation_kind Kind>
  using of_piece = operation<detail::piece_operation<Kind>>;
  using piece = detail::memory_piece;
  using general = operation<detail::general_operation>;
  using kind = detail::operation_kind;

 public:
  /// Takes a connected channel. Preconditions: it was created on the hub of `on`, and has no
  /// blocking or scoped operations in flight. Allocates.
  channel(engine& on, verbena::channel&& connected);
  /// Takes the channel of `other`, which must not be used afterwards.
  channel(channel&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  /// Destroys its own channel and takes that of `other`, which must not be used afterwards.
  channel& operator=(channel&& other) noexcept;
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  /// Destroys the queue pair. Operations in flight end as `lost`.
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
  /// Receives one message. `byte_length()` of the result is its length.
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
  /// Writes to the beginning of `to`. The peer's program is not notified.
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

  /// Ends the connection: moves the queue pair to the error state. All operations end, as `aborted`
  /// if they were in flight. Does not block, except in the kernel.
  void abort();
  /// Returns the channel without asynchronous operations, for queries.
  [[nodiscard]] const verbena::channel& get() const { return *state().of(); }
  /// Returns the channel for other uses, such as reconnect(). Precondition: no operation is in
  /// flight.
  [[nodiscard]] verbena::channel release() &&;

 private:
  [[nodiscard]] detail::channel_state& state() const {
    VERBENA_ASSERT(state_ != nullptr, "a moved-from async::channel was used");
    return *state_;
  }
  void close() noexcept;

  detail::channel_state* state_;  // counted: hold() and release()
};

}  // namespace verbena::inline VERBENA_ABI::async
